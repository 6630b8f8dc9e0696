//! As whom an endpoint is asked, and where that is found.
//!
//! A bearer token, a key pair that signs, or nothing. Key pairs come from the environment or from a
//! profile of the AWS CLI, and only as they stand there: nothing is asked for over the network.

use crate::{Secret, options::Unusable, profile::Profile};
use std::path::PathBuf;

/// As whom an endpoint is asked.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// As nobody.
    #[default]
    None,
    /// As whoever has this bearer token.
    Token(Secret),
    /// As the owner of this key pair, which signs every request.
    Keys(Keys),
}

/// A key pair, as AWS has them. `outlast keys create` makes them too.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Its public half.
    pub id: String,
    /// Its secret half.
    pub secret: Secret,
    /// The token of a session, for keys that last no longer than one.
    pub session: Option<Secret>,
}

/// What an environment says about AWS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) keys: Option<Keys>,
    pub(crate) region: Option<String>,
    /// The settings by which the profile gets keys that are not read here.
    elsewhere: Option<(String, &'static str)>,
}

impl Found {
    /// Looks in the environment, and in the files of profiles: if one is named, or if `default` is
    /// meant unless another is.
    pub(crate) fn look(
        variable: &dyn Fn(&str) -> Option<String>,
        default: bool,
    ) -> Result<Self, Unusable> {
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let keys = match (
            variable("AWS_ACCESS_KEY_ID"),
            variable("AWS_SECRET_ACCESS_KEY"),
        ) {
            (Some(id), Some(secret)) => Some(Keys {
                id,
                secret: Secret::new(secret),
                session: variable("AWS_SESSION_TOKEN").map(Secret::new),
            }),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                return Err(Unusable::new(
                    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are halves of one key pair: set both or neither",
                ));
            }
        };
        let named = variable("AWS_PROFILE");
        let found = Self {
            keys,
            region,
            elsewhere: None,
        };
        if found.keys.is_some() && found.region.is_some() || (named.is_none() && !default) {
            return Ok(found);
        }
        found.with_profile(variable, named)
    }

    fn with_profile(
        mut self,
        variable: &dyn Fn(&str) -> Option<String>,
        named: Option<String>,
    ) -> Result<Self, Unusable> {
        let home = variable("HOME").or_else(|| variable("USERPROFILE"));
        let file = |name: &str, otherwise: &str| {
            let given = variable(name).map(PathBuf::from);
            given.or_else(|| Some(PathBuf::from(home.as_deref()?).join(".aws").join(otherwise)))
        };
        let files = [
            file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            file("AWS_CONFIG_FILE", "config"),
        ];
        // A file that is not there says nothing.
        let [credentials, config] = files.map(|file| {
            let text = file.and_then(|file| std::fs::read_to_string(file).ok());
            text.unwrap_or_default()
        });
        let name = named.as_deref().unwrap_or("default");
        let profile = Profile::read(name, &credentials, &config);
        if named.is_some() && !profile.exists {
            return Err(Unusable::new(format!(
                "AWS_PROFILE names '{name}', which is in neither ~/.aws/credentials nor ~/.aws/config"
            )));
        }
        self.region = self.region.or_else(|| profile.region.clone());
        self.elsewhere = profile.elsewhere.map(|how| (name.to_owned(), how));
        self.keys = self.keys.or_else(|| profile.keys());
        if self.keys.is_none() && named.is_some() {
            return Err(self.without_keys());
        }
        Ok(self)
    }

    /// What to do when keys are needed and there are none.
    pub(crate) fn without_keys(&self) -> Unusable {
        Unusable::new(match &self.elsewhere {
            Some((profile, how)) => format!(
                "the profile '{profile}' gets its keys by {how}, which is not read here: run `eval \
                 \"$(aws configure export-credentials --profile {profile} --format env)\"` first"
            ),
            None => "no AWS keys are found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                     AWS_PROFILE to a profile with keys in ~/.aws/credentials"
                .to_owned(),
        })
    }
}

impl Keys {
    /// The key pair that the environment names, in variables or in a profile, and its region.
    ///
    /// # Errors
    /// When there is none.
    pub fn from_env() -> Result<(Self, Option<String>), Unusable> {
        let mut found = Found::look(&crate::options::variable, true)?;
        match found.keys.take() {
            Some(keys) => Ok((keys, found.region)),
            None => Err(found.without_keys()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn look(variables: &[(&str, &str)], default: bool) -> Result<Found, Unusable> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Found::look(&variable, default)
    }

    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let write = |name: &str, text| std::fs::write(home.path().join(".aws").join(name), text);
        write(
            "credentials",
            "[default]\naws_access_key_id = D\naws_secret_access_key = d\n[work]\n\
             aws_access_key_id = W\naws_secret_access_key = w\n",
        )
        .unwrap();
        write(
            "config",
            "[profile work]\nregion = eu-west-3\n[profile sso]\nsso_session = s\n[profile none]\nregion = r-1\n",
        )
        .unwrap();
        home
    }

    fn text(home: &Path) -> &str {
        home.to_str().unwrap()
    }

    #[test]
    fn the_environments_own_keys_come_first() {
        let home = home();
        let home = text(home.path());
        let keys = [
            ("AWS_ACCESS_KEY_ID", "E"),
            ("AWS_SECRET_ACCESS_KEY", "e"),
            ("AWS_SESSION_TOKEN", "t"),
            ("AWS_PROFILE", "work"),
            ("HOME", home),
        ];
        let found = look(&keys, false).unwrap();
        let keys = found.keys.unwrap();
        assert_eq!(
            (&*keys.id, keys.session.unwrap().expose().to_owned()),
            ("E", "t".to_owned())
        );
        assert_eq!(
            found.region.as_deref(),
            Some("eu-west-3"),
            "the region is the profile's"
        );
    }

    #[test]
    fn a_profile_is_read_when_it_is_named_and_the_default_when_it_is_meant() {
        let home = home();
        let home = ("HOME", text(home.path()));
        assert!(look(&[home], false).unwrap().keys.is_none());
        assert_eq!(look(&[home], true).unwrap().keys.unwrap().id, "D");
        let work = look(&[home, ("AWS_PROFILE", "work")], false).unwrap();
        assert_eq!(work.keys.unwrap().id, "W");
        let region = ("AWS_DEFAULT_REGION", "x-1");
        let work = look(&[home, ("AWS_PROFILE", "work"), region], false).unwrap();
        assert_eq!(work.region.as_deref(), Some("x-1"));
    }

    #[test]
    fn what_is_missing_is_said_with_what_helps() {
        let home = home();
        let home = ("HOME", text(home.path()));
        for (variables, expected) in [
            (
                vec![home, ("AWS_PROFILE", "sso")],
                "aws configure export-credentials --profile sso",
            ),
            (
                vec![home, ("AWS_PROFILE", "none")],
                "set AWS_ACCESS_KEY_ID and",
            ),
            (vec![home, ("AWS_PROFILE", "gone")], "neither ~/.aws"),
            (vec![("AWS_ACCESS_KEY_ID", "half")], "set both or neither"),
            (
                vec![("AWS_SECRET_ACCESS_KEY", "half")],
                "set both or neither",
            ),
        ] {
            let error = look(&variables, false).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let nothing = look(&[], true).unwrap();
        assert!(nothing.keys.is_none() && nothing.region.is_none());
    }
}
