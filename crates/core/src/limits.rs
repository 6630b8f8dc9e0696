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
pub const EMPTY_PENDING_ATTEMPTS_MAX: u32 = 3;
/// First delay before a failed invocation is repeated; doubles up to the next constant.
pub const INVOCATION_RETRY_MS_MIN: u64 = 1_000;
/// Longest delay before a failed invocation is repeated.
pub const INVOCATION_RETRY_MS_MAX: u64 = 60_000;
/// Days an execution stays readable after its end when the function does not say.
pub const RETENTION_DAYS_DEFAULT: u32 = 14;
/// Longest retention a function may ask for (service model).
pub const RETENTION_DAYS_MAX: u32 = 90;
