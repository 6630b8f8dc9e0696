//! Which calls of targets are signed, and with whose keys.
//!
//! Whoever may make functions decides where their calls go. With the operator's keys they could call
//! whatever those may call, so the operator names the hosts for which calls are signed; no others are.

use crate::host::push::Target;
use outlast_http::{Keys, Unusable, sigv4::Signer};

/// The keys for some hosts.
#[derive(Clone, Debug, Default)]
pub struct Signing(Option<Signed>);

#[derive(Clone, Debug)]
struct Signed {
    hosts: Vec<String>,
    keys: Keys,
    region: Option<String>,
}

impl Signing {
    /// Signs calls of these hosts with these keys, for this region unless a host's name says another.
    pub fn new(hosts: Vec<String>, keys: Keys, region: Option<String>) -> Self {
        Self(Some(Signed {
            hosts,
            keys,
            region,
        }))
    }

    /// The same with the AWS keys of this process's environment; without hosts, nothing is signed.
    ///
    /// # Errors
    /// When there are hosts and no keys.
    pub fn from_env(hosts: &[String]) -> Result<Self, Unusable> {
        if hosts.is_empty() {
            return Ok(Self::default());
        }
        let (keys, region) = Keys::from_env()?;
        Ok(Self::new(hosts.to_vec(), keys, region))
    }

    /// Who signs calls of this target, if anybody does.
    pub fn signer(&self, target: &Target) -> Option<Signer> {
        let Signed {
            hosts,
            keys,
            region,
        } = self.0.as_ref()?;
        let endpoint = target.endpoint();
        // A session's token must not be read on the way.
        let hidden = endpoint.is_encrypted() || endpoint.is_loopback();
        let named = |host: &String| host.eq_ignore_ascii_case(endpoint.host());
        let signs = hidden && hosts.iter().any(named);
        signs.then(|| keys.signer(endpoint, region.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_http::Secret;

    #[test]
    fn only_calls_of_hosts_that_the_operator_names_are_signed() {
        let keys = Keys {
            id: "k".to_owned(),
            secret: Secret::new("s"),
            session: None,
        };
        let hosts = ["Lambda.eu-west-1.amazonaws.com", "127.0.0.1", "worker"];
        let hosts = hosts.map(str::to_owned).to_vec();
        let signing = Signing::new(hosts, keys, Some("us-east-2".to_owned()));
        let region = |endpoint| {
            let target = Target::new(endpoint, "f").unwrap();
            signing.signer(&target).map(|signer| signer.region)
        };
        let aws = "https://lambda.eu-west-1.amazonaws.com";
        assert_eq!(region(aws).as_deref(), Some("eu-west-1"));
        assert_eq!(
            region("http://127.0.0.1:3001").as_deref(),
            Some("us-east-2")
        );
        assert_eq!(region("https://worker:1").as_deref(), Some("us-east-2"));
        assert_eq!(region("http://worker:1"), None, "not encrypted");
        assert_eq!(region("https://lambda.eu-west-2.amazonaws.com"), None);
        assert_eq!(region("https://127.0.0.2"), None);
        let target = Target::new(aws, "f").unwrap();
        assert!(Signing::default().signer(&target).is_none());
    }
}
