// What the handlers of several suites share.

import { createRetryStrategy, JitterStrategy } from "@aws/durable-execution-sdk-js";

export const retrying = (maxAttempts = 3, seconds = 1, backoffRate = 1) => ({
  retryStrategy: createRetryStrategy({
    maxAttempts,
    initialDelay: { seconds },
    backoffRate,
    jitter: JitterStrategy.NONE,
  }),
});

export const never = { retryStrategy: () => ({ shouldRetry: false }) };

export const refuse = async () => {
  throw new Error("failed as required");
};

// A body that gives back a value, of a step or of anything else.
export const giving = (value) => async () => value;

// The body of a step that fails in all its attempts before this one.
export const failingUntil = (attempt, value) => async (step) => (step.attempt < attempt ? refuse() : value);

// A way to write values, made of two functions.
export const codec = (write, read) => ({
  serialize: async (value) => write(value),
  deserialize: async (text) => (text === undefined ? undefined : read(text)),
});

export const shouting = codec(
  (text) => text.toUpperCase(),
  (text) => text,
);

// What an operation gives, or what is made of its failure.
export async function handled(operation, fallback) {
  try {
    return await operation;
  } catch (error) {
    return fallback(error);
  }
}
