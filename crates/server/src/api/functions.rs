//! Functions, versions and aliases: the operations that clients need to deploy and to call.

use super::{Api, Asked, number};
use crate::{
    answer::{Answered, empty, json},
    catalogue::{Entry, FunctionConfiguration, Members, reference},
    error::ApiError,
    route::{AliasAction, FunctionAction, Query},
};
use hyper::StatusCode;
use outlast_core::arn::{FunctionReference, LATEST};
use serde_json::{Map, Value, json as value};

/// Items on a page of functions, versions or aliases, whatever more is asked for (as the service).
const PAGE_ITEMS: usize = 50;
/// Items a caller may ask for (service model).
const MAX_ITEMS_MAX: u32 = 10_000;

impl Api {
    pub(super) async fn create_function(&self, asked: &Asked<'_>) -> Answered {
        let members: Members = asked.json()?;
        let publish = members.is_true("Publish");
        let tags = tags(&members);
        let account = self.catalogue.account();
        let created = FunctionConfiguration::create(members, account, &self.catalogue.stamp())?;
        let name = created.function().name.clone();
        let arn = created.base_arn();
        let made = self.catalogue.change(&name, move |entry| {
            if entry.is_some() {
                return Err(ApiError::conflict(format!("Function already exist: {arn}")));
            }
            let shown = created.shown(None);
            let mut entry = Entry::new(created);
            entry.tags = tags;
            if publish {
                entry.publish(&Members::default())
            } else {
                Ok((entry, shown))
            }
        });
        json(StatusCode::CREATED, &made.await?)
    }

    pub(super) fn list_functions(&self, query: Query<'_>) -> Answered {
        let max = page_size(query)?;
        let all_versions = match query.get("FunctionVersion")?.as_deref() {
            None => false,
            Some("ALL") => true,
            Some(_) => return Err(ApiError::validation("FunctionVersion must be ALL")),
        };
        let marker = query.get("Marker")?;
        let (entries, more) = self.catalogue.page(marker.as_deref(), max);
        let last = entries.last().filter(|_| more);
        let next = last.map(|entry| entry.latest.function().name.to_string());
        let mut functions = Vec::new();
        for entry in &entries {
            if all_versions {
                functions.extend(entry.configurations().map(with_version));
            } else {
                functions.push(entry.latest.shown(None));
            }
        }
        page("Functions", functions, next)
    }

    pub(super) async fn function(
        &self,
        name: &str,
        action: FunctionAction,
        asked: &Asked<'_>,
    ) -> Answered {
        let query = asked.query;
        let function = reference(name, query.get("Qualifier")?.as_deref())?;
        let entry = self.catalogue.get(&function)?;
        let qualifier = function.qualifier.as_deref();
        match action {
            FunctionAction::Get => {
                let configuration = entry.find(qualifier.unwrap_or(LATEST))?;
                let mut body = value!({
                    "Configuration": configuration.shown(qualifier),
                    "Code": {"RepositoryType": "S3", "Location": ""},
                });
                if !entry.tags.is_empty()
                    && let Some(body) = body.as_object_mut()
                {
                    body.insert("Tags".into(), entry.tags.clone().into());
                }
                json(StatusCode::OK, &body)
            }
            FunctionAction::GetConfiguration => {
                let configuration = entry.find(qualifier.unwrap_or(LATEST))?;
                json(StatusCode::OK, &configuration.shown(qualifier))
            }
            FunctionAction::Delete => self.delete_function(&function).await,
            FunctionAction::UpdateConfiguration | FunctionAction::UpdateCode => {
                let is_code = action == FunctionAction::UpdateCode;
                self.update_function(&function, is_code, asked).await
            }
            FunctionAction::Publish => {
                let members: Members = asked.json()?;
                let published = self.change(&function, move |entry| entry.publish(&members));
                json(StatusCode::CREATED, &published.await?)
            }
            FunctionAction::ListVersions => list_versions(&entry, query),
            FunctionAction::CreateAlias => {
                let (members, stamp) = (asked.json::<Members>()?, self.catalogue.stamp());
                let made = self.change(&function, move |entry| {
                    entry.with_new_alias(&members, &stamp)
                });
                json(StatusCode::CREATED, &made.await?)
            }
            FunctionAction::ListAliases => {
                let version = query.get("FunctionVersion")?;
                let marker = query.get("Marker")?;
                let max = page_size(query)?;
                let (aliases, next) = entry.aliases(version.as_deref(), marker.as_deref(), max);
                page("Aliases", aliases, next)
            }
        }
    }

    pub(super) async fn alias(
        &self,
        name: &str,
        alias: &str,
        action: AliasAction,
        asked: &Asked<'_>,
    ) -> Answered {
        let function = reference(name, None)?;
        let entry = self.catalogue.get(&function)?;
        let alias = alias.to_owned();
        match action {
            AliasAction::Get => json(StatusCode::OK, &entry.alias(&alias)?),
            AliasAction::Update => {
                let (members, stamp) = (asked.json::<Members>()?, self.catalogue.stamp());
                let updated = self.change(&function, move |entry| {
                    entry.with_updated_alias(&alias, &members, &stamp)
                });
                json(StatusCode::OK, &updated.await?)
            }
            AliasAction::Delete => {
                let removed = self.change(&function, move |entry| {
                    Ok((entry.without_alias(&alias), ()))
                });
                removed.await?;
                Ok(empty(StatusCode::NO_CONTENT))
            }
        }
    }

    async fn delete_function(&self, function: &FunctionReference) -> Answered {
        match function.qualifier.clone() {
            None => self.catalogue.remove(&function.name).await?,
            Some(qualifier) => {
                let removed = self.change(function, move |entry| {
                    Ok((entry.without_version(&qualifier)?, ()))
                });
                removed.await?;
            }
        }
        Ok(empty(StatusCode::NO_CONTENT))
    }

    async fn update_function(
        &self,
        function: &FunctionReference,
        is_code: bool,
        asked: &Asked<'_>,
    ) -> Answered {
        let (members, stamp) = (asked.json::<Members>()?, self.catalogue.stamp());
        let updated = self.change(function, move |entry| {
            entry.check_revision(&members)?;
            let (publish, dry_run) = (members.is_true("Publish"), members.is_true("DryRun"));
            let members = if is_code {
                architectures(members)
            } else {
                members
            };
            let latest = entry.latest.updated(members, &stamp)?;
            let shown = latest.shown(None);
            if dry_run {
                return Ok((entry.clone(), shown));
            }
            let entry = entry.with_latest(latest);
            if publish && is_code {
                entry.publish(&Members::default())
            } else {
                Ok((entry, shown))
            }
        });
        json(StatusCode::OK, &updated.await?)
    }

    /// Changes a function that must be there.
    async fn change<R: Send + 'static>(
        &self,
        function: &FunctionReference,
        work: impl FnOnce(&Entry) -> Result<(Entry, R), ApiError> + Send + 'static,
    ) -> Result<R, ApiError> {
        let name = function.name.clone();
        let changing = self
            .catalogue
            .change(&function.name, move |entry| match entry {
                Some(entry) => work(entry),
                None => Err(ApiError::not_found(format!("Function not found: {name}"))),
            });
        changing.await
    }
}

/// A new code says nothing about the configuration but what it runs on.
fn architectures(members: Members) -> Members {
    let kept = members.0.into_iter();
    Members(kept.filter(|(name, _)| name == "Architectures").collect())
}

fn tags(members: &Members) -> Map<String, Value> {
    let tags = members.0.get("Tags").and_then(Value::as_object);
    tags.cloned().unwrap_or_default()
}

fn list_versions(entry: &Entry, query: Query<'_>) -> Answered {
    let max = page_size(query)?;
    let from: usize = match query.get("Marker")? {
        None => 0,
        Some(marker) => marker
            .parse()
            .map_err(|_| ApiError::invalid("invalid marker"))?,
    };
    let versions = entry.configurations().skip(from).map(with_version);
    let mut versions: Vec<Value> = versions.take(max + 1).collect();
    let next = (versions.len() > max).then(|| (from + max).to_string());
    versions.truncate(max);
    page("Versions", versions, next)
}

fn with_version(configuration: &FunctionConfiguration) -> Value {
    configuration.shown(Some(&configuration.function().version))
}

fn page(name: &str, items: Vec<Value>, next: Option<String>) -> Answered {
    let mut body = Map::new();
    body.insert(name.into(), items.into());
    if let Some(next) = next {
        body.insert("NextMarker".into(), next.into());
    }
    json(StatusCode::OK, &body)
}

fn page_size(query: Query<'_>) -> Result<usize, ApiError> {
    match number(query, "MaxItems")? {
        None => Ok(PAGE_ITEMS),
        Some(items @ 1..=MAX_ITEMS_MAX) => Ok(PAGE_ITEMS.min(items as usize)),
        Some(_) => Err(ApiError::validation(format!(
            "MaxItems must be 1 to {MAX_ITEMS_MAX}"
        ))),
    }
}
