//! One function's configuration, in the service's shape.
//!
//! Members that mean something here are checked; the others are kept and echoed, so that a client
//! reads back what it wrote. Code is accepted and forgotten: hosts have their own.

use super::{Account, Stamp};
use crate::error::ApiError;
use outlast_core::{
    Tenancy,
    arn::{Function, FunctionReference, LATEST},
    start::check_config,
    wire::DurableConfig,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Seconds one invocation may take when the function does not say (service model).
const TIMEOUT_SECONDS_DEFAULT: u32 = 3;
/// Seconds one invocation may take at most (service model).
const TIMEOUT_SECONDS_MAX: u32 = 900;
/// Megabytes of memory when the function does not say, and at least (service model).
const MEMORY_MB_MIN: u32 = 128;
/// Megabytes of memory at most (service model).
const MEMORY_MB_MAX: u32 = 32_768;
/// Longest name of a function (service model).
const NAME_LENGTH_MAX: usize = 64;
/// Members of requests that are no part of a configuration.
const REQUEST_ONLY: [&str; 12] = [
    "Code",
    "Publish",
    "PublishTo",
    "Tags",
    "DryRun",
    "ZipFile",
    "S3Bucket",
    "S3Key",
    "S3ObjectVersion",
    "ImageUri",
    "SourceKMSKeyArn",
    "CodeSigningConfigArn",
];

/// Members as a client sent them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Members(pub(crate) Map<String, Value>);

impl Members {
    /// A member's text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(ApiError::invalid(format!("{name} must be a string")))
            }
        }
    }

    /// A member's text, which must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, ApiError> {
        let missing = || ApiError::invalid(format!("{name} is missing"));
        self.text(name)?.ok_or_else(missing)
    }

    /// Whether a member is true.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    fn number(&self, name: &str, default: u32, max: u32) -> Result<u32, ApiError> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_null()) else {
            return Ok(default);
        };
        let min = if name == "MemorySize" {
            MEMORY_MB_MIN
        } else {
            1
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| ApiError::invalid(format!("{name} must be {min} to {max}")))
    }
}

/// The configuration of one version of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct FunctionConfiguration {
    function: Function,
    durable: Option<DurableConfig>,
    tenancy: Tenancy,
    timeout_seconds: u32,
    memory_mb: u32,
    /// Everything, as it is stored and shown.
    members: Map<String, Value>,
}

impl FunctionConfiguration {
    /// A new function's configuration, from a client's request or an operator's file.
    pub(crate) fn create(
        members: Members,
        account: &Account,
        stamp: &Stamp,
    ) -> Result<Self, ApiError> {
        let function = function(&members, account)?;
        let Members(mut all) = members;
        for member in REQUEST_ONLY {
            all.remove(member);
        }
        all.retain(|_, value| !value.is_null());
        // Only here: what is stored is read, whatever it says.
        let tenancy = all.get("TenancyConfig");
        if tenancy.is_some() && !per_tenant(tenancy) {
            return Err(ApiError::invalid(
                "TenancyConfig: TenantIsolationMode must be PER_TENANT",
            ));
        }
        all.insert("FunctionName".into(), (*function.name).into());
        all.entry("PackageType").or_insert_with(|| "Zip".into());
        all.entry("Architectures")
            .or_insert_with(|| Value::from(vec!["x86_64"]));
        all.entry("CodeSize").or_insert_with(|| 0.into());
        let mut configuration = Self::read(function, all)?;
        configuration.set_version(LATEST.into());
        configuration.stamp(stamp);
        Ok(configuration)
    }

    /// This configuration with the members of a request in place of its own.
    pub(crate) fn updated(&self, members: Members, stamp: &Stamp) -> Result<Self, ApiError> {
        let mut all = self.members.clone();
        for (name, value) in members.0 {
            let fixed = ["FunctionName", "FunctionArn", "Version", "RevisionId"];
            if REQUEST_ONLY.contains(&&*name) || fixed.contains(&&*name) || value.is_null() {
                continue;
            }
            match (&*name, all.get_mut(&name), value) {
                ("DurableConfig", None, _) => {
                    return Err(ApiError::invalid(
                        "a function is made durable when it is created, not later",
                    ));
                }
                ("TenancyConfig", known, value) if known.as_deref() != Some(&value) => {
                    return Err(ApiError::invalid(
                        "whether a function keeps tenants apart is said when it is created, not later",
                    ));
                }
                ("DurableConfig", Some(Value::Object(known)), Value::Object(new)) => {
                    known.extend(new);
                }
                (_, _, value) => drop(all.insert(name, value)),
            }
        }
        let mut configuration = Self::read(self.function.clone(), all)?;
        configuration.stamp(stamp);
        Ok(configuration)
    }

    /// The same under the number of a version, which never changes again.
    pub(crate) fn published(&self, version: u64, description: Option<&str>) -> Self {
        let mut published = self.clone();
        published.set_version(version.to_string().into());
        if let Some(description) = description {
            let members = &mut published.members;
            members.insert("Description".into(), description.into());
        }
        published
    }

    /// Notes when and as what it was changed.
    pub(crate) fn stamp(&mut self, stamp: &Stamp) {
        let Stamp {
            last_modified,
            revision_id,
        } = stamp.clone();
        self.members
            .insert("LastModified".into(), last_modified.into());
        self.members.insert("RevisionId".into(), revision_id.into());
    }

    /// Whether both say the same, whenever that was.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let said = |configuration: &Self| {
            let mut members = configuration.members.clone();
            members.remove("LastModified");
            members.remove("RevisionId");
            members
        };
        said(self) == said(other) && self.function == other.function
    }

    /// Which function, and which version of it.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Its durable settings; none for an ordinary function.
    pub fn durable_config(&self) -> Option<&DurableConfig> {
        self.durable.as_ref()
    }

    /// For which tenants it may be invoked.
    pub fn tenancy(&self) -> Tenancy {
        self.tenancy
    }

    /// Seconds one invocation may take.
    pub fn timeout_seconds(&self) -> u32 {
        self.timeout_seconds
    }

    /// Megabytes of memory it asks for.
    pub fn memory_mb(&self) -> u32 {
        self.memory_mb
    }

    /// The variables of its environment, by name.
    pub fn environment(&self) -> impl Iterator<Item = (&str, &str)> {
        let variables = self.members.get("Environment");
        let variables = variables.and_then(|environment| environment.get("Variables"));
        let variables = variables.and_then(Value::as_object).into_iter().flatten();
        variables.filter_map(|(name, value)| Some((&**name, value.as_str()?)))
    }

    /// Any other member, as it was written.
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// As the API shows it, its ARN with the qualifier that was asked for.
    pub(crate) fn shown(&self, qualifier: Option<&str>) -> Value {
        let mut members = self.members.clone();
        let arn = match qualifier {
            Some(qualifier) => format!("{}:{qualifier}", self.base_arn()),
            None => self.base_arn(),
        };
        members.insert("FunctionArn".into(), arn.into());
        members.insert("State".into(), "Active".into());
        members.insert("LastUpdateStatus".into(), "Successful".into());
        if let Some(layers) = members.get_mut("Layers") {
            show_layers(layers);
        }
        members.into()
    }

    /// The ARN without a qualifier.
    pub(crate) fn base_arn(&self) -> String {
        let Function {
            partition,
            region,
            account,
            name,
            ..
        } = &self.function;
        format!("arn:{partition}:lambda:{region}:{account}:function:{name}")
    }

    fn set_version(&mut self, version: Arc<str>) {
        self.members.insert("Version".into(), (*version).into());
        self.function.version = version;
        // Kept whole, so that it can be read back from its members alone.
        let arn = self.function.to_string();
        self.members.insert("FunctionArn".into(), arn.into());
    }

    fn read(function: Function, members: Map<String, Value>) -> Result<Self, ApiError> {
        let members = Members(members);
        let durable = match members.0.get("DurableConfig") {
            None => None,
            Some(config) => {
                let config: DurableConfig = serde_json::from_value(config.clone())
                    .map_err(|error| ApiError::invalid(format!("DurableConfig: {error}")))?;
                check_config(&config)?;
                Some(config)
            }
        };
        // An execution's ARN has no room for a dot in the name.
        if durable.is_some() && function.name.contains('.') {
            return Err(ApiError::invalid(
                "the name of a durable function must not contain a dot",
            ));
        }
        let tenancy = match per_tenant(members.0.get("TenancyConfig")) {
            true => Tenancy::PerTenant,
            false => Tenancy::Shared,
        };
        let timeout_seconds =
            members.number("Timeout", TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX)?;
        let memory_mb = members.number("MemorySize", MEMORY_MB_MIN, MEMORY_MB_MAX)?;
        let Members(mut members) = members;
        members.insert("Timeout".into(), timeout_seconds.into());
        members.insert("MemorySize".into(), memory_mb.into());
        Ok(Self {
            function,
            durable,
            tenancy,
            timeout_seconds,
            memory_mb,
            members,
        })
    }
}

impl TryFrom<Map<String, Value>> for FunctionConfiguration {
    type Error = String;

    fn try_from(members: Map<String, Value>) -> Result<Self, String> {
        let arn = members.get("FunctionArn").and_then(Value::as_str);
        let function: Function = arn
            .unwrap_or_default()
            .parse()
            .map_err(|rejection: outlast_core::Rejection| rejection.message)?;
        Self::read(function, members).map_err(|error| error.message)
    }
}

impl From<FunctionConfiguration> for Map<String, Value> {
    fn from(configuration: FunctionConfiguration) -> Self {
        configuration.members
    }
}

/// Which function the members are of: its name, and where it lives.
fn function(members: &Members, account: &Account) -> Result<Function, ApiError> {
    let name: FunctionReference = members.required("FunctionName")?.parse()?;
    let text = members.text("FunctionArn")?;
    let partition = text.and_then(|text| text.split(':').nth(1));
    let arn: Option<FunctionReference> = text.map(str::parse).transpose()?;
    if arn.as_ref().is_some_and(|arn| arn.name != name.name) {
        return Err(ApiError::invalid("FunctionArn names another function"));
    }
    if arn.as_ref().is_some_and(|arn| arn.region.is_none()) {
        return Err(ApiError::invalid("FunctionArn is not an ARN"));
    }
    if name.qualifier.is_some() {
        return Err(ApiError::invalid("a new function's name has no qualifier"));
    }
    if name.name.len() > NAME_LENGTH_MAX {
        let message = format!("a function's name has {NAME_LENGTH_MAX} characters at most");
        return Err(ApiError::invalid(message));
    }
    let arn = arn.as_ref();
    let region = name.region.or_else(|| arn?.region.clone());
    let number = name.account.or_else(|| arn?.account.clone());
    Ok(Function {
        partition: partition.map_or_else(|| account.partition.clone(), Into::into),
        region: region.map_or_else(|| account.region.clone(), Into::into),
        account: number.map_or_else(|| account.account.clone(), Into::into),
        name: name.name.into(),
        version: LATEST.into(),
    })
}

/// Whether a function says that it keeps tenants apart.
fn per_tenant(config: Option<&Value>) -> bool {
    let mode = config.and_then(|config| config.get("TenantIsolationMode"));
    mode.and_then(Value::as_str) == Some("PER_TENANT")
}

/// Layers are written as ARNs and read as objects.
fn show_layers(layers: &mut Value) {
    for layer in layers.as_array_mut().into_iter().flatten() {
        if layer.is_string() {
            *layer = serde_json::json!({"Arn": layer.take(), "CodeSize": 0});
        }
    }
}
