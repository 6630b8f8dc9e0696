//! One function with its versions and aliases, and what can be done to them. Pure: whoever changes
//! a function stores what comes out.

use super::{FunctionConfiguration, Members, Stamp};
use crate::error::ApiError;
use outlast_core::arn::LATEST;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Longest name of an alias (service model).
const ALIAS_LENGTH_MAX: usize = 128;

/// A function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The version that can be changed.
    pub(crate) latest: FunctionConfiguration,
    /// The others, by number.
    versions: BTreeMap<u64, FunctionConfiguration>,
    /// The number of the next version; numbers are never used again.
    next_version: u64,
    /// Whether it was changed since the last version was published.
    changed: bool,
    aliases: BTreeMap<String, Alias>,
    #[serde(default)]
    pub(crate) tags: Map<String, Value>,
}

/// A name for a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alias {
    version: String,
    description: String,
    revision_id: String,
}

impl Entry {
    pub(crate) fn new(latest: FunctionConfiguration) -> Self {
        Self {
            latest,
            versions: BTreeMap::new(),
            next_version: 1,
            changed: true,
            aliases: BTreeMap::new(),
            tags: Map::new(),
        }
    }

    /// The same with another `$LATEST`.
    pub(crate) fn with_latest(&self, latest: FunctionConfiguration) -> Self {
        Self {
            latest,
            changed: true,
            ..self.clone()
        }
    }

    /// `$LATEST` and every version, oldest first.
    pub(crate) fn configurations(&self) -> impl Iterator<Item = &FunctionConfiguration> {
        std::iter::once(&self.latest).chain(self.versions.values())
    }

    /// What a version or an alias stands for.
    pub(crate) fn find(&self, qualifier: &str) -> Result<&FunctionConfiguration, ApiError> {
        let version = self.aliases.get(qualifier);
        let version = version.map_or(qualifier, |alias| &alias.version);
        if version == LATEST {
            return Ok(&self.latest);
        }
        let number = version.parse().ok();
        let found = number.and_then(|number: u64| self.versions.get(&number));
        found.ok_or_else(|| {
            let arn = self.latest.base_arn();
            ApiError::not_found(format!("Function not found: {arn}:{qualifier}"))
        })
    }

    /// Publishes `$LATEST` under the next number; if nothing changed, the last one stays.
    pub(crate) fn publish(&self, request: &Members) -> Result<(Self, Value), ApiError> {
        self.check_revision(request)?;
        let mut entry = self.clone();
        let last = entry.versions.last_key_value();
        if let (Some((number, last)), false) = (last, entry.changed) {
            let shown = last.shown(Some(&number.to_string()));
            return Ok((entry, shown));
        }
        let number = entry.next_version;
        let published = entry.latest.published(number, request.text("Description")?);
        let shown = published.shown(Some(&number.to_string()));
        entry.versions.insert(number, published);
        entry.next_version += 1;
        entry.changed = false;
        Ok((entry, shown))
    }

    /// Removes a version that no alias needs.
    pub(crate) fn without_version(&self, qualifier: &str) -> Result<Self, ApiError> {
        let number: u64 = qualifier.parse().map_err(|_| {
            ApiError::invalid("only a numbered version can be deleted by its qualifier")
        })?;
        let mut needed = self.aliases.iter();
        let needed = needed.find(|(_, alias)| alias.version == qualifier);
        if let Some((name, _)) = needed {
            let message = format!("version {qualifier} is still referred to by alias {name}");
            return Err(ApiError::conflict(message));
        }
        let mut entry = self.clone();
        entry.versions.remove(&number);
        Ok(entry)
    }

    /// Whether the caller has seen the newest revision, if it says which one it has seen.
    pub(crate) fn check_revision(&self, request: &Members) -> Result<(), ApiError> {
        let known = self.latest.member("RevisionId").and_then(Value::as_str);
        revision_is(known, request)
    }

    /// What each alias stands for.
    pub(crate) fn alias_versions(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let aliases = self.aliases.iter();
        aliases
            .map(|(name, alias)| (name.as_str().into(), alias.version.as_str().into()))
            .collect()
    }

    /// An alias, as the API shows it.
    pub(crate) fn alias(&self, name: &str) -> Result<Value, ApiError> {
        let alias = self.aliases.get(name).ok_or_else(|| self.no_alias(name))?;
        Ok(self.show_alias(name, alias))
    }

    /// Up to `max` aliases after `after` that stand for `version`, if one is given, and whether
    /// there are more.
    pub(crate) fn aliases(
        &self,
        version: Option<&str>,
        after: Option<&str>,
        max: usize,
    ) -> (Vec<Value>, Option<String>) {
        let mut names = self.aliases.iter().filter(|(name, alias)| {
            after.is_none_or(|after| name.as_str() > after)
                && version.is_none_or(|version| alias.version == version)
        });
        let page: Vec<_> = names.by_ref().take(max).collect();
        let more = names.next().is_some();
        let next = page
            .last()
            .filter(|_| more)
            .map(|(name, _)| (*name).clone());
        let shown = page.into_iter();
        let shown = shown.map(|(name, alias)| self.show_alias(name, alias));
        (shown.collect(), next)
    }

    /// Adds an alias.
    pub(crate) fn with_new_alias(
        &self,
        request: &Members,
        stamp: &Stamp,
    ) -> Result<(Self, Value), ApiError> {
        let name = request.required("Name")?.to_owned();
        check_alias_name(&name)?;
        if self.aliases.contains_key(&name) {
            return Err(ApiError::conflict(format!("Alias already exists: {name}")));
        }
        request.required("FunctionVersion")?;
        let alias = Alias {
            version: String::new(),
            description: String::new(),
            revision_id: String::new(),
        };
        self.with_alias(name, alias, request, stamp)
    }

    /// Moves or describes an alias.
    pub(crate) fn with_updated_alias(
        &self,
        name: &str,
        request: &Members,
        stamp: &Stamp,
    ) -> Result<(Self, Value), ApiError> {
        let alias = self.aliases.get(name).ok_or_else(|| self.no_alias(name))?;
        revision_is(Some(&alias.revision_id), request)?;
        self.with_alias(name.to_owned(), alias.clone(), request, stamp)
    }

    /// Removes an alias; it is no mistake if there is none.
    pub(crate) fn without_alias(&self, name: &str) -> Self {
        let mut entry = self.clone();
        entry.aliases.remove(name);
        entry
    }

    fn with_alias(
        &self,
        name: String,
        mut alias: Alias,
        request: &Members,
        stamp: &Stamp,
    ) -> Result<(Self, Value), ApiError> {
        let weights = request.0.get("RoutingConfig");
        let weights = weights.and_then(|routing| routing.get("AdditionalVersionWeights"));
        if weights
            .and_then(Value::as_object)
            .is_some_and(|weights| !weights.is_empty())
        {
            return Err(ApiError::invalid("an alias stands for one version here"));
        }
        if let Some(version) = request.text("FunctionVersion")? {
            if self.aliases.contains_key(version) {
                return Err(ApiError::invalid(
                    "an alias stands for a version, not for an alias",
                ));
            }
            self.find(version)?;
            alias.version = version.to_owned();
        }
        if let Some(description) = request.text("Description")? {
            alias.description = description.to_owned();
        }
        alias.revision_id.clone_from(&stamp.revision_id);
        let shown = self.show_alias(&name, &alias);
        let mut entry = self.clone();
        entry.aliases.insert(name, alias);
        Ok((entry, shown))
    }

    fn show_alias(&self, name: &str, alias: &Alias) -> Value {
        json!({
            "AliasArn": format!("{}:{name}", self.latest.base_arn()),
            "Name": name,
            "FunctionVersion": alias.version,
            "Description": alias.description,
            "RevisionId": alias.revision_id,
        })
    }

    fn no_alias(&self, name: &str) -> ApiError {
        let arn = self.latest.base_arn();
        ApiError::not_found(format!("Cannot find alias arn: {arn}:{name}"))
    }
}

fn revision_is(known: Option<&str>, request: &Members) -> Result<(), ApiError> {
    match request.text("RevisionId")? {
        Some(seen) if Some(seen) != known => Err(ApiError::precondition(
            "the RevisionId provided does not match the latest one",
        )),
        _ => Ok(()),
    }
}

/// A name that no version can have.
fn check_alias_name(name: &str) -> Result<(), ApiError> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let legal = (1..=ALIAS_LENGTH_MAX).contains(&name.len())
        && name.bytes().all(word)
        && !name.bytes().all(|byte| byte.is_ascii_digit());
    legal
        .then_some(())
        .ok_or_else(|| ApiError::validation("the name of the alias is not acceptable"))
}
