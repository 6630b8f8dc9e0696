//! Every limit of the protocol, in one place, with its reason.

/// Longest operation or parent id, in characters (service model).
pub const ID_LENGTH_MAX: usize = 64;
/// Longest operation name, in characters of printable ASCII (service model).
pub const NAME_LENGTH_MAX: usize = 256;
/// Longest subtype label (service model).
pub const SUB_TYPE_LENGTH_MAX: usize = 32;
/// Longest execution name a caller may choose (service model).
pub const EXECUTION_NAME_LENGTH_MAX: usize = 64;
/// Longest client token of a checkpoint (service model).
pub const CLIENT_TOKEN_LENGTH_MAX: usize = 64;
/// Longest checkpoint token (service model).
pub const CHECKPOINT_TOKEN_LENGTH_MAX: usize = 2_048;
/// Longest callback id (service model).
pub const CALLBACK_ID_LENGTH_MAX: usize = 1_024;
/// Longest tenant id (service model).
pub const TENANT_ID_LENGTH_MAX: usize = 256;
/// Longest trace header (service model).
pub const TRACE_ID_LENGTH_MAX: usize = 8_192;

/// Shortest wait or retry delay, in seconds (service model).
pub const DELAY_SECONDS_MIN: u32 = 1;
/// Longest wait, retry delay or execution timeout: 366 days (service model).
pub const DELAY_SECONDS_MAX: u32 = 31_622_400;
/// Longest callback or heartbeat timeout (service model).
pub const CALLBACK_TIMEOUT_SECONDS_MAX: u32 = 99_999_999;

/// Largest payload of a step, context or callback, in UTF-8 bytes (service model).
pub const PAYLOAD_BYTES_MAX: usize = 1_048_576;
/// Largest execution result when the execution was started synchronously (service model).
pub const EXECUTION_RESULT_BYTES_MAX: usize = 6_291_456;
/// Largest error object, all fields together (service model).
pub const ERROR_BYTES_MAX: usize = 1_048_576;

/// Most updates an SDK puts into one checkpoint request (all official SDKs; Java uses 200).
pub const BATCH_UPDATES_MAX: usize = 250;
/// Most bytes an SDK puts into one checkpoint request; a single larger update travels alone.
pub const BATCH_BYTES_MAX: usize = 750 * 1_024;
/// Most updates the service accepts in one request: room for clients that batch more than we do.
pub const REQUEST_UPDATES_MAX: usize = 1_000;

/// A serialised context result above this is not stored: its children are replayed instead.
pub const INLINE_RESULT_BYTES_MAX: usize = 262_144;
/// A handler result above this travels as an EXECUTION update instead of in the response
/// (Lambda's 6 MiB response limit less 50 bytes of envelope).
pub const RESPONSE_RESULT_BYTES_MAX: usize = EXECUTION_RESULT_BYTES_MAX - 50;

/// Operations on one page of state or history when the caller names no number.
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Most items on one page of state or history (service model).
pub const PAGE_ITEMS_MAX: usize = 1_000;
/// Payload bytes on the first page of state, which travels inside the 6 MiB invocation event.
pub const PAGE_BYTES_MAX: usize = 5 * 1_048_576;

/// Invocations in a row that may answer PENDING with nothing pending before the execution fails.
/// Those that wrote something are not counted: SDK-Python gives up a branch that awaits a callback
/// or a function, does not take it up again when the answer comes while another branch runs, and
/// then has nothing left to wait for.
pub const EMPTY_PENDING_ATTEMPTS_MAX: u32 = 3;
/// First delay before a failed invocation is repeated; doubles up to the next constant.
pub const INVOCATION_RETRY_MS_MIN: u64 = 1_000;
/// Longest delay before a failed invocation is repeated.
pub const INVOCATION_RETRY_MS_MAX: u64 = 60_000;
/// Days an execution stays readable after its end when the function does not say.
pub const RETENTION_DAYS_DEFAULT: u32 = 14;
/// Longest retention a function may ask for (service model).
pub const RETENTION_DAYS_MAX: u32 = 90;

/// Longest function name or ARN a chained invoke may give, in characters.
pub const FUNCTION_REFERENCE_LENGTH_MAX: usize = 256;
/// Longest execution ARN (service model).
pub const ARN_LENGTH_MAX: usize = 1_024;
/// Longest execution a caller may wait for on an open connection: 15 minutes (service model).
pub const SYNCHRONOUS_TIMEOUT_SECONDS_MAX: u32 = 900;
/// Largest input of an asynchronous start, in bytes (service model).
pub const EVENT_INPUT_BYTES_MAX: usize = 1_048_576;
/// Largest input of a synchronous start, in bytes (service model).
pub const REQUEST_INPUT_BYTES_MAX: usize = 6_291_456;
/// Failed invocations in a row, without any progress, before our own homes hold an execution. With
/// delays of up to a minute this is more than an hour of an outage that heals by itself.
pub const STALLED_INVOCATIONS_MAX: u32 = 100;
/// Signals that may lie unconsumed in one execution.
pub const SIGNALS_BUFFERED_MAX: usize = 10_000;
/// Bytes of an operation's JSON on a page besides its payload: ids, timestamps, member names.
pub const OPERATION_ENVELOPE_BYTES: usize = 320;
/// Operations one AWS execution may create (published quota).
pub const AWS_OPERATIONS_MAX: u64 = 3_000;
/// Bytes one AWS execution may write (published quota: 100 MB).
pub const AWS_DATA_BYTES_MAX: u64 = 100 * 1_048_576;

/// The limits an operator may choose. Sizes of the service model are constants above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Operations an execution may create, each retry counting as one more.
    pub operations_max: Option<u64>,
    /// Bytes an execution may write in all.
    pub data_bytes_max: Option<u64>,
    /// Largest payload of one operation.
    pub payload_bytes_max: usize,
    /// Largest error object of one operation.
    pub error_bytes_max: usize,
    /// Most updates in one checkpoint request.
    pub request_updates_max: usize,
    /// Bytes on one page of state or history.
    pub page_bytes_max: usize,
    /// Whether a step may ask for its next attempt without delay.
    pub zero_retry_delay: bool,
    /// Failed invocations in a row after which the execution fails; unbounded when absent.
    pub invocation_attempts_max: Option<u32>,
    /// First delay before a failed invocation is repeated.
    pub invocation_retry_ms_min: u64,
    /// Longest delay before a failed invocation is repeated.
    pub invocation_retry_ms_max: u64,
    /// Failed invocations in a row without progress after which the execution is held.
    pub stalled_invocations_max: Option<u32>,
    /// Whether a replay mismatch holds the execution; otherwise it fails it.
    pub hold_on_mismatch: bool,
    /// Whether children of closed contexts are left out of the state given to handlers.
    pub hide_closed_children: bool,
    /// Signals that may lie unconsumed in one execution.
    pub signals_buffered_max: usize,
}

impl Quotas {
    /// What our own homes allow: no quota on operations or bytes, and a bad deploy is held.
    pub const fn unlimited() -> Self {
        Self {
            operations_max: None,
            data_bytes_max: None,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            error_bytes_max: ERROR_BYTES_MAX,
            request_updates_max: REQUEST_UPDATES_MAX,
            page_bytes_max: PAGE_BYTES_MAX,
            zero_retry_delay: true,
            invocation_attempts_max: None,
            invocation_retry_ms_min: INVOCATION_RETRY_MS_MIN,
            invocation_retry_ms_max: INVOCATION_RETRY_MS_MAX,
            stalled_invocations_max: Some(STALLED_INVOCATIONS_MAX),
            hold_on_mismatch: true,
            hide_closed_children: true,
            signals_buffered_max: SIGNALS_BUFFERED_MAX,
        }
    }

    /// What the AWS service allows, as far as it is published.
    pub const fn aws() -> Self {
        Self {
            operations_max: Some(AWS_OPERATIONS_MAX),
            data_bytes_max: Some(AWS_DATA_BYTES_MAX),
            zero_retry_delay: false,
            stalled_invocations_max: None,
            hold_on_mismatch: false,
            ..Self::unlimited()
        }
    }
}

impl Default for Quotas {
    fn default() -> Self {
        Self::unlimited()
    }
}
