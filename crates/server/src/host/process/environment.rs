//! The environment a runtime client expects, and what the function's author adds to it.

use outlast_core::arn::Function;
use std::{collections::BTreeMap, fmt, net::SocketAddr, path::PathBuf};
use tokio::process::Command;

/// Memory a function is said to have unless told otherwise, in MiB. Nothing enforces it.
pub const MEMORY_MB_DEFAULT: u32 = 128;

/// What a process finds in its environment besides what is the same for all.
///
/// It inherits the environment of this process. The function's own variables replace what is
/// inherited; what the runtime interface defines replaces both.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The function's own variables.
    pub variables: BTreeMap<String, String>,
    /// `_HANDLER`: what the runtime client calls.
    pub handler: String,
    /// `LAMBDA_TASK_ROOT`: the folder of the function's code.
    pub code: PathBuf,
    /// The memory the function is said to have.
    pub memory_mb: u32,
    /// Where the durable API is (`AWS_ENDPOINT_URL_LAMBDA`), without which the handler would ask AWS.
    pub endpoint: Option<String>,
    /// What the process signs its requests with; without, whatever it inherits.
    pub credentials: Option<Credentials>,
    /// `AWS_LAMBDA_MAX_CONCURRENCY`: how many invocations a client that can may take at once.
    pub concurrency: Option<u32>,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            variables: BTreeMap::new(),
            handler: "handler".to_owned(),
            code: PathBuf::from("."),
            memory_mb: MEMORY_MB_DEFAULT,
            endpoint: None,
            credentials: None,
            concurrency: None,
        }
    }
}

/// A key pair.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key_id: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: String,
    /// `AWS_SESSION_TOKEN`.
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// Gives `command` its environment.
    pub fn apply(&self, command: &mut Command, function: &Function, api: SocketAddr) {
        command.envs(&self.variables);
        let Function {
            name,
            version,
            region,
            ..
        } = function;
        command
            .env("AWS_LAMBDA_RUNTIME_API", api.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", &**name)
            .env("AWS_LAMBDA_FUNCTION_VERSION", &**version)
            .env(
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
                self.memory_mb.to_string(),
            )
            .env("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}"))
            .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
            .env("_HANDLER", &self.handler)
            .env("LAMBDA_TASK_ROOT", &self.code)
            .env("AWS_REGION", &**region)
            .env("AWS_DEFAULT_REGION", &**region)
            .env("TZ", ":UTC");
        match self.concurrency {
            Some(concurrency) => command.env("AWS_LAMBDA_MAX_CONCURRENCY", concurrency.to_string()),
            None => command.env_remove("AWS_LAMBDA_MAX_CONCURRENCY"),
        };
        if let Some(endpoint) = &self.endpoint {
            command.env("AWS_ENDPOINT_URL_LAMBDA", endpoint);
        }
        if let Some(credentials) = &self.credentials {
            // A profile would win over the key pair in some clients.
            command
                .env_remove("AWS_PROFILE")
                .env("AWS_ACCESS_KEY_ID", &credentials.access_key_id)
                .env("AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key);
            match &credentials.session_token {
                Some(token) => command.env("AWS_SESSION_TOKEN", token),
                None => command.env_remove("AWS_SESSION_TOKEN"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `command` would set, in order; `-` for what it takes away.
    fn listed(command: &Command) -> Vec<String> {
        let entry = |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| {
            let value = value.map_or("-".into(), std::ffi::OsStr::to_string_lossy);
            format!("{}={value}", name.to_string_lossy())
        };
        command.as_std().get_envs().map(entry).collect()
    }

    #[test]
    fn the_environment_is_complete_and_the_interface_wins() {
        let function: Function = "arn:aws:lambda:eu-west-1:000000000000:function:order:7"
            .parse()
            .unwrap();
        let environment = Environment {
            variables: BTreeMap::from([
                ("TABLE".to_owned(), "orders".to_owned()),
                ("AWS_LAMBDA_RUNTIME_API".to_owned(), "elsewhere".to_owned()),
            ]),
            handler: "app.handler".to_owned(),
            code: "code".into(),
            endpoint: Some("http://127.0.0.1:9".to_owned()),
            credentials: Some(Credentials {
                access_key_id: "key".to_owned(),
                secret_access_key: "secret".to_owned(),
                session_token: None,
            }),
            ..Environment::default()
        };
        let mut command = Command::new("x");
        environment.apply(&mut command, &function, "127.0.0.1:1".parse().unwrap());
        let expected = [
            "AWS_ACCESS_KEY_ID=key",
            "AWS_DEFAULT_REGION=eu-west-1",
            "AWS_ENDPOINT_URL_LAMBDA=http://127.0.0.1:9",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128",
            "AWS_LAMBDA_FUNCTION_NAME=order",
            "AWS_LAMBDA_FUNCTION_VERSION=7",
            "AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/order",
            "AWS_LAMBDA_MAX_CONCURRENCY=-",
            "AWS_LAMBDA_RUNTIME_API=127.0.0.1:1",
            "AWS_PROFILE=-",
            "AWS_REGION=eu-west-1",
            "AWS_SECRET_ACCESS_KEY=secret",
            "AWS_SESSION_TOKEN=-",
            "LAMBDA_TASK_ROOT=code",
            "TABLE=orders",
            "TZ=:UTC",
            "_HANDLER=app.handler",
        ];
        assert_eq!(listed(&command), expected);
        let shown = format!("{environment:?}");
        assert!(!shown.contains("secret\""), "{shown}");
    }
}
