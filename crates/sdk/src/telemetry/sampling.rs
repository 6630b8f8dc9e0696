//! Which executions are sampled that no caller decided about.

use super::TelemetryError;
use opentelemetry::{
    Context, KeyValue,
    trace::{Link, SpanKind, TraceId},
};
use opentelemetry_sdk::trace::{Sampler, SamplingResult, ShouldSample};
use std::cell::Cell;

thread_local! {
    /// Whether the next span of this thread hangs below a root that nobody decided about.
    static UNDECIDED: Cell<bool> = const { Cell::new(false) };
}

/// Samples executions that nobody called from a trace as roots, in each of their invocations: their
/// parent is a span of another process, which a sampler that follows parents would follow.
#[derive(Clone, Debug)]
pub(super) struct ByRoot(Sampler);

impl ByRoot {
    /// The sampler that OpenTelemetry's environment variables name.
    pub(super) fn new(setting: &impl Fn(&str) -> Option<String>) -> Result<Self, TelemetryError> {
        let refused = |variable: &str, what: &str, set: &str| {
            TelemetryError::Settings(format!("{variable} is {what}, and not {set}"))
        };
        let ratio = || match setting("OTEL_TRACES_SAMPLER_ARG") {
            None => Ok(Sampler::TraceIdRatioBased(1.0)),
            Some(set) => match set.trim().parse() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(Sampler::TraceIdRatioBased(ratio)),
                _ => Err(refused(
                    "OTEL_TRACES_SAMPLER_ARG",
                    "a ratio from 0 to 1",
                    &set,
                )),
            },
        };
        let by_parent = |root| Sampler::ParentBased(Box::new(root));
        let sampler = match setting("OTEL_TRACES_SAMPLER").as_deref() {
            None | Some("parentbased_always_on") => by_parent(Sampler::AlwaysOn),
            Some("parentbased_always_off") => by_parent(Sampler::AlwaysOff),
            Some("parentbased_traceidratio") => by_parent(ratio()?),
            Some("always_on") => Sampler::AlwaysOn,
            Some("always_off") => Sampler::AlwaysOff,
            Some("traceidratio") => ratio()?,
            Some(other) => {
                let what = "always_on, always_off, traceidratio, or one of them after parentbased_";
                return Err(refused("OTEL_TRACES_SAMPLER", what, other));
            }
        };
        Ok(Self(sampler))
    }
}

/// Starts a span whose parent nobody decided about.
pub(super) fn undecided<S>(start: impl FnOnce() -> S) -> S {
    struct Decided;
    impl Drop for Decided {
        fn drop(&mut self) {
            UNDECIDED.set(false);
        }
    }
    UNDECIDED.set(true);
    let _decided = Decided;
    start()
}

impl ShouldSample for ByRoot {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let parent = parent.filter(|_| !UNDECIDED.take());
        self.0
            .should_sample(parent, trace, name, kind, attributes, links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceState};
    use opentelemetry_sdk::trace::SamplingDecision;

    fn sampler(name: &'static str, ratio: &'static str) -> Result<ByRoot, String> {
        let setting = move |variable: &str| match variable {
            "OTEL_TRACES_SAMPLER" => Some(name.to_owned()),
            _ => Some(ratio.to_owned()),
        };
        ByRoot::new(&setting).map_err(|error| error.to_string())
    }

    /// Whether a span below a sampled one of another process is sampled: as such, and undecided.
    fn samples(sampler: &ByRoot) -> (bool, bool) {
        let trace = TraceId::from(u128::MAX);
        let flags = TraceFlags::SAMPLED;
        let above = SpanContext::new(trace, SpanId::from(1), flags, true, TraceState::NONE);
        let above = Context::new().with_remote_span_context(above);
        let samples = || {
            let kind = SpanKind::Internal;
            let result = sampler.should_sample(Some(&above), trace, "", &kind, &[], &[]);
            result.decision == SamplingDecision::RecordAndSample
        };
        (samples(), undecided(samples))
    }

    #[test]
    fn what_nobody_decided_about_is_sampled_as_a_root() {
        for (name, expected) in [
            ("always_on", (true, true)),
            ("always_off", (false, false)),
            ("traceidratio", (false, false)),
            ("parentbased_always_on", (true, true)),
            ("parentbased_always_off", (true, false)),
            ("parentbased_traceidratio", (true, false)),
        ] {
            let sampler = sampler(name, "0.5").unwrap();
            assert_eq!(samples(&sampler), expected, "{name}");
        }
        let all = sampler("parentbased_traceidratio", "1").unwrap();
        assert_eq!(samples(&all), (true, true));
        let unset = ByRoot::new(&|_: &str| None).unwrap();
        assert_eq!(samples(&unset), (true, true));
    }

    #[test]
    fn samplers_that_do_not_exist_are_refused() {
        let refused = |name, ratio| sampler(name, ratio).unwrap_err();
        insta::assert_snapshot!(refused("traceidratio", "10%"), @"telemetry cannot begin: OTEL_TRACES_SAMPLER_ARG is a ratio from 0 to 1, and not 10%");
        insta::assert_snapshot!(refused("parentbased_traceidratio", "1.1"), @"telemetry cannot begin: OTEL_TRACES_SAMPLER_ARG is a ratio from 0 to 1, and not 1.1");
        insta::assert_snapshot!(refused("sometimes", "1"), @"telemetry cannot begin: OTEL_TRACES_SAMPLER is always_on, always_off, traceidratio, or one of them after parentbased_, and not sometimes");
    }
}
