//! The files in which the AWS CLI keeps profiles, as far as they hold keys and a region. Pure.
//!
//! Only keys that stand in the files are read. Single sign-on, roles to assume and programs that
//! print keys are recognised, so that whoever uses them is told what helps.

use crate::{Keys, Secret};

/// Settings that say that a profile gets its keys from elsewhere.
const ELSEWHERE: [&str; 6] = [
    "sso_session",
    "sso_start_url",
    "role_arn",
    "credential_process",
    "web_identity_token_file",
    "login_session",
];

/// What the files say of one profile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    /// Whether any of them mentions it.
    pub(crate) exists: bool,
    id: Option<String>,
    secret: Option<Secret>,
    session: Option<Secret>,
    pub(crate) region: Option<String>,
    /// The setting by which it gets keys from elsewhere.
    pub(crate) elsewhere: Option<&'static str>,
}

impl Profile {
    /// Reads what the files of credentials and of configuration say of a profile. The former counts
    /// first.
    pub(crate) fn read(name: &str, credentials: &str, config: &str) -> Self {
        let mut profile = Self::default();
        profile.add(credentials, |title| title == name);
        profile.add(config, |title| {
            let named = title.strip_prefix("profile").map(str::trim);
            named == Some(name) || (title == name && name == "default")
        });
        profile
    }

    /// Its keys, if they stand in the files.
    pub(crate) fn keys(self) -> Option<Keys> {
        Some(Keys {
            id: self.id?,
            secret: self.secret?,
            session: self.session,
        })
    }

    fn add(&mut self, text: &str, is_meant: impl Fn(&str) -> bool) {
        let mut inside = false;
        // Keys of two files are never mixed.
        let complete = self.id.is_some() && self.secret.is_some();
        for line in text.lines() {
            if let Some(title) = line.trim().strip_prefix('[') {
                let title = title.split(']').next().unwrap_or_default();
                inside = is_meant(title.trim());
                self.exists |= inside;
                continue;
            }
            // What is indented belongs to the setting above it.
            let is_setting = !line.starts_with([' ', '\t', '#', ';']);
            let Some((name, value)) = line.split_once('=').filter(|_| inside && is_setting) else {
                continue;
            };
            let value = value.trim();
            let name = name.trim().to_ascii_lowercase();
            match &*name {
                "aws_access_key_id" if !complete => self.id = Some(value.to_owned()),
                "aws_secret_access_key" if !complete => self.secret = Some(Secret::new(value)),
                "aws_session_token" if !complete => self.session = Some(Secret::new(value)),
                "region" if self.region.is_none() => self.region = Some(value.to_owned()),
                name => {
                    let known = ELSEWHERE.iter().find(|known| **known == name);
                    self.elsewhere = self.elsewhere.or(known.copied());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "
# a comment = with a sign
[default]
aws_access_key_id = DEFAULT
aws_secret_access_key=one/=
[ work ]
AWS_ACCESS_KEY_ID=WORK
aws_secret_access_key = two
aws_session_token = three
s3 =
  region = not-this-one
[half]
aws_access_key_id = HALF
";
    const CONFIG: &str = "
[default]
region = eu-west-1
[profile work]
region = us-east-2
aws_access_key_id = MIXED
aws_session_token = MIXED
[work]
region = wrong
[profile single]
sso_session = corporate
region = eu-north-1
[sso-session corporate]
sso_start_url = https://x
";

    fn read(name: &str) -> Profile {
        Profile::read(name, CREDENTIALS, CONFIG)
    }

    #[test]
    fn keys_and_region_of_a_profile_are_found() {
        let default = read("default");
        assert_eq!(default.region.as_deref(), Some("eu-west-1"));
        let keys = default.keys().unwrap();
        assert_eq!((&*keys.id, keys.secret.expose()), ("DEFAULT", "one/="));
        assert!(keys.session.is_none());
        let work = read("work");
        assert_eq!(work.region.as_deref(), Some("us-east-2"));
        let keys = work.keys().unwrap();
        assert_eq!((&*keys.id, keys.secret.expose()), ("WORK", "two"));
        assert_eq!(keys.session.unwrap().expose(), "three");
    }

    #[test]
    fn a_profile_without_keys_says_where_they_come_from() {
        let single = read("single");
        assert_eq!(single.elsewhere, Some("sso_session"));
        assert!(single.exists && single.keys().is_none());
        let half = read("half");
        assert!(half.exists && half.elsewhere.is_none() && half.keys().is_none());
        assert!(!read("nobody").exists);
        assert!(!Profile::read("default", "", "").exists);
    }
}
