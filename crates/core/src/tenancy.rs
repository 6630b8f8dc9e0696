//! For which tenants a function may be invoked.
//!
//! A function is made for tenants or it is not, for good. In the service an invocation that does not
//! fit is refused. A chained invoke is such an invocation, with one difference: a tenant that it only
//! inherits is not handed on to a function that knows none, which nothing could invoke otherwise.

use crate::error::Rejection;
use alloc::string::String;

/// Whether a function keeps tenants apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tenancy {
    /// Where nobody says so of functions: an invocation may be for a tenant, or for none.
    #[default]
    Any,
    /// Each tenant has processes of its own, so every invocation is for one.
    PerTenant,
    /// No invocation is for a tenant.
    Shared,
}

impl Tenancy {
    /// Whether a function may be invoked for this tenant, or for none.
    ///
    /// # Errors
    /// When it may not.
    pub fn check(self, tenant: Option<&str>) -> Result<(), Rejection> {
        match (self, tenant) {
            (Self::PerTenant, None) => Err(Rejection::invalid(
                "the function keeps tenants apart: name the tenant that it is invoked for",
            )),
            (Self::Shared, Some(_)) => Err(Rejection::invalid(
                "the function was made without a TenancyConfig: invoke it without a tenant",
            )),
            (Self::Any, _) | (Self::PerTenant, Some(_)) | (Self::Shared, None) => Ok(()),
        }
    }

    /// For whom an execution invokes a function: the tenant it names, or the one it has itself.
    ///
    /// # Errors
    /// When the function may not be invoked for that one.
    pub(crate) fn invoked(
        self,
        named: Option<String>,
        own: Option<&str>,
    ) -> Result<Option<String>, Rejection> {
        let inherited = own.filter(|_| self != Self::Shared);
        let tenant = named.or_else(|| inherited.map(Into::into));
        self.check(tenant.as_deref())?;
        Ok(tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn an_invocation_fits_the_function_or_is_refused() {
        use Tenancy::{Any, PerTenant, Shared};
        for (tenancy, tenant, fits) in [
            (Any, None, true),
            (Any, Some("blue"), true),
            (PerTenant, None, false),
            (PerTenant, Some("blue"), true),
            (Shared, None, true),
            (Shared, Some("blue"), false),
        ] {
            let checked = tenancy.check(tenant);
            assert_eq!(checked.is_ok(), fits, "{tenancy:?} {tenant:?}");
            if let Err(refused) = checked {
                assert_eq!(refused.code, Code::InvalidParameterValue);
            }
        }
    }

    #[test]
    fn what_is_inherited_is_not_forced_on_a_function_that_knows_no_tenants() {
        use Tenancy::{Any, PerTenant, Shared};
        for (tenancy, named, own, expected) in [
            (Any, None, Some("blue"), Ok(Some("blue"))),
            (Any, Some("red"), Some("blue"), Ok(Some("red"))),
            (PerTenant, None, Some("blue"), Ok(Some("blue"))),
            (PerTenant, Some("red"), Some("blue"), Ok(Some("red"))),
            (PerTenant, None, None, Err(())),
            (Shared, None, Some("blue"), Ok(None)),
            (Shared, Some("red"), None, Err(())),
        ] {
            let invoked = tenancy.invoked(named.map(Into::into), own);
            let invoked = invoked.map_err(drop);
            let expected: Result<Option<String>, ()> = expected.map(|of| of.map(Into::into));
            assert_eq!(invoked, expected, "{tenancy:?} {named:?} {own:?}");
        }
    }
}
