//! What is settled before anything is sent: which endpoint, as whom, and whom to trust.
//!
//! A [`Choice`] is what somebody said; what they left open, the environment fills in. Variables are
//! read here and nowhere else.

use crate::{
    Credentials, Endpoint, Keys, Place, Secret,
    credentials::Found,
    sigv4::Signer,
    tls::{CA_VARIABLE, Tls},
};
use std::path::PathBuf;

/// The variable with a bearer token.
pub const TOKEN_VARIABLE: &str = "OUTLAST_TOKEN";
/// The variable that lets a token travel where everybody on the way can read it.
pub const PLAINTEXT_VARIABLE: &str = "OUTLAST_ALLOW_PLAINTEXT";
/// The region of signatures for a server that has no opinion about it.
const REGION: &str = "us-east-1";

/// Why an endpoint cannot be asked like this: what, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

impl Unusable {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A variable of the environment; an empty one counts as none.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Place {
    /// The endpoint that is meant, AWS's in this region.
    ///
    /// # Errors
    /// When AWS is meant and nobody says in which region.
    pub fn endpoint(self, region: Option<&str>) -> Result<Endpoint, Unusable> {
        match (self, region) {
            (Self::At(endpoint), _) => Ok(endpoint),
            (Self::Aws, Some(region)) => Ok(Endpoint::aws(region)),
            (Self::Aws, None) => Err(Unusable::new(
                "which region of AWS is meant? Name it with --region or AWS_REGION",
            )),
        }
    }
}

/// What somebody said about an endpoint.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Which one.
    pub place: Place,
    /// The bearer token.
    pub token: Option<Secret>,
    /// The region for which requests are signed, and of AWS.
    pub region: Option<String>,
    /// A file of certificates to trust besides the machine's.
    pub ca: Option<PathBuf>,
    /// Whether a token may travel without encryption.
    pub plaintext: bool,
}

impl Choice {
    /// Nothing but the endpoint.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            token: None,
            region: None,
            ca: None,
            plaintext: false,
        }
    }

    /// With what the environment says about what was left open.
    ///
    /// A token comes first, then AWS keys, then nobody. AWS itself knows no tokens of ours.
    ///
    /// # Errors
    /// When what is named cannot be found, or AWS is meant and its keys or region are missing.
    pub fn settle(self) -> Result<Options, Unusable> {
        self.settle_with(&variable)
    }

    fn settle_with(self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Options, Unusable> {
        let is_aws = match &self.place {
            Place::At(endpoint) => endpoint.is_aws(),
            Place::Aws => true,
        };
        let given = self.token.filter(|token| !token.expose().is_empty());
        let token = given.or_else(|| variable(TOKEN_VARIABLE).map(Secret::new));
        let token = token.filter(|_| !is_aws);
        let found = match token {
            Some(_) => Found::default(),
            None => Found::look(variable, is_aws)?,
        };
        let region = self.region.or_else(|| found.region.clone());
        let endpoint = self.place.endpoint(region.as_deref())?;
        if is_aws && found.keys.is_none() {
            return Err(found.without_keys());
        }
        let credentials = match (token, found.keys) {
            (Some(token), _) => Credentials::Token(token),
            (None, Some(keys)) => Credentials::Keys(keys),
            (None, None) => Credentials::None,
        };
        let allowed = variable(PLAINTEXT_VARIABLE);
        Ok(Options {
            endpoint,
            credentials,
            region,
            ca: self.ca.or_else(|| variable(CA_VARIABLE).map(PathBuf::from)),
            plaintext: self.plaintext || allowed.is_some_and(|value| value != "0"),
            agent: None,
        })
    }
}

/// An endpoint, and how it is asked. Nothing is read from the environment any more.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which one.
    pub endpoint: Endpoint,
    /// As whom.
    pub credentials: Credentials,
    /// The region for which requests are signed, unless the endpoint's name says it.
    pub region: Option<String>,
    /// A file of certificates to trust besides the machine's.
    pub ca: Option<PathBuf>,
    /// Whether a token may travel without encryption.
    pub plaintext: bool,
    /// What the client calls itself.
    pub agent: Option<&'static str>,
}

impl Options {
    /// An endpoint that is asked as nobody.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            credentials: Credentials::None,
            region: None,
            ca: None,
            plaintext: false,
            agent: None,
        }
    }

    /// A token is as good as what it opens: it goes where nobody can read it on the way.
    pub(crate) fn check(&self) -> Result<(), Unusable> {
        let endpoint = &self.endpoint;
        let hidden = endpoint.is_encrypted() || endpoint.is_loopback() || self.plaintext;
        match &self.credentials {
            Credentials::Token(_) if !hidden => Err(Unusable::new(format!(
                "a token is not sent to {endpoint}, where everybody on the way can read it: use \
                 https://, or keys, which sign and are not sent; for a network of your own, set \
                 {PLAINTEXT_VARIABLE}=1"
            ))),
            Credentials::Token(_) | Credentials::Keys(_) | Credentials::None => Ok(()),
        }
    }

    /// What signs requests, if a key pair does.
    pub(crate) fn signer(&self) -> Option<Signer> {
        match &self.credentials {
            Credentials::Keys(keys) => Some(keys.signer(&self.endpoint, self.region.as_deref())),
            Credentials::Token(_) | Credentials::None => None,
        }
    }

    /// How connections are encrypted, if they are.
    pub(crate) fn tls(&self) -> Result<Option<Tls>, Unusable> {
        let encrypted = self.endpoint.is_encrypted();
        encrypted.then(|| Tls::new(self.ca.as_deref())).transpose()
    }
}

impl Keys {
    /// Signs for an endpoint: for the region that its name says, else this one, else any.
    pub fn signer(&self, endpoint: &Endpoint, region: Option<&str>) -> Signer {
        let region = endpoint.region().or(region).unwrap_or(REGION);
        Signer {
            key_id: self.id.clone(),
            secret: self.secret.clone(),
            session: self.session.clone(),
            region: region.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];

    fn settle(place: &str, token: Option<&str>, set: &[(&str, &str)]) -> Result<Options, Unusable> {
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let choice = Choice {
            token: token.map(Secret::new),
            ..Choice::new(place.parse().unwrap())
        };
        choice.settle_with(&variable)
    }

    fn who(options: &Options) -> String {
        match &options.credentials {
            Credentials::None => "nobody".to_owned(),
            Credentials::Token(token) => format!("token {}", token.expose()),
            Credentials::Keys(keys) => format!("keys {}", keys.id),
        }
    }

    #[test]
    fn a_token_comes_before_keys_and_keys_before_nobody() {
        let with = |more: &[(&'static str, &'static str)]| [&KEYS[..], more].concat();
        let token = with(&[(TOKEN_VARIABLE, "b")]);
        for (given, set, expected) in [
            (Some("a"), token.clone(), "token a"),
            (Some(""), token.clone(), "token b"),
            (None, token, "token b"),
            (None, with(&[]), "keys k"),
            (None, vec![], "nobody"),
        ] {
            let options = settle("http://localhost:1", given, &set).unwrap();
            assert_eq!(who(&options), expected);
        }
    }

    #[test]
    fn aws_is_asked_with_keys_in_a_region_and_never_with_a_token() {
        let region = ("AWS_REGION", "eu-west-1");
        let set = [KEYS[0], KEYS[1], region];
        let options = settle("aws", Some("token"), &set).unwrap();
        assert_eq!(
            options.endpoint.to_string(),
            "https://lambda.eu-west-1.amazonaws.com"
        );
        assert_eq!(who(&options), "keys k");
        let options = settle("https://lambda.us-east-2.amazonaws.com", None, &set).unwrap();
        assert_eq!(
            options.signer().unwrap().region,
            "us-east-2",
            "the name counts"
        );
        let error = settle("aws", None, &KEYS).unwrap_err().to_string();
        assert!(error.contains("AWS_REGION"), "{error}");
        let error = settle("aws", Some("t"), &[region]).unwrap_err().to_string();
        assert!(error.contains("AWS_ACCESS_KEY_ID"), "{error}");
    }

    #[test]
    fn a_token_is_not_sent_in_the_open_unless_that_is_wanted() {
        let open = settle("http://10.0.0.1:1", Some("t"), &[]).unwrap();
        let error = open.check().unwrap_err().to_string();
        assert!(
            error.contains("https://") && error.contains(PLAINTEXT_VARIABLE),
            "{error}"
        );
        for (place, set) in [
            ("http://localhost:1", vec![]),
            ("https://10.0.0.1:1", vec![]),
            ("http://10.0.0.1:1", vec![(PLAINTEXT_VARIABLE, "1")]),
        ] {
            assert_eq!(settle(place, Some("t"), &set).unwrap().check(), Ok(()));
        }
        let zero = settle("http://10.0.0.1:1", Some("t"), &[(PLAINTEXT_VARIABLE, "0")]);
        assert!(zero.unwrap().check().is_err());
        let signed = settle("http://10.0.0.1:1", None, &KEYS).unwrap();
        assert_eq!(signed.check(), Ok(()), "a secret that signs is not sent");
    }
}
