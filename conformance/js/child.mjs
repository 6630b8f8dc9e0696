// Suite 3: child contexts.

import { withDurableExecution } from "@aws/durable-execution-sdk-js";
import { failingUntil, giving, handled, never, refuse, retrying, shouting } from "./common.mjs";
import { loseProcess } from "./step.mjs";

const echo = (context, value) => context.step(giving(value));

async function echoAndWait(context, value) {
  const echoed = await echo(context, value);
  await context.wait({ seconds: 1 });
  return echoed;
}

export const basic = withDurableExecution((event, context) =>
  context.runInChildContext((inner) => echo(inner, event)),
);

export const named = withDurableExecution((event, context) =>
  context.runInChildContext(event.name, (inner) => echo(inner, event.value)),
);

export const sequential = withDurableExecution((event, context) =>
  context.runInChildContext("sequential", async (inner) => echo(inner, await echo(inner, event))),
);

const failIn = (context) => context.runInChildContext("failing", (inner) => inner.step(refuse, never));

export const fails = withDurableExecution((_event, context) => failIn(context));

export const failureHandled = withDurableExecution((event, context) =>
  handled(failIn(context), () => echo(context, event)),
);

export const nested = withDurableExecution((event, context) =>
  context.runInChildContext("outer", async (inner) => {
    const value = await echo(inner, event);
    return inner.runInChildContext("inner", (innermost) => echo(innermost, value));
  }),
);

export const stepRetried = withDurableExecution((event, context) =>
  context.runInChildContext("retried", (inner) => inner.step(failingUntil(2, event), retrying())),
);

export const stepExhausted = withDurableExecution((_event, context) =>
  context.runInChildContext("exhausted", (inner) => inner.step(refuse, retrying(2))),
);

export const replaySkips = withDurableExecution(async (event, context) => {
  const value = await context.runInChildContext((inner) => echo(inner, event));
  await context.wait({ seconds: 1 });
  return value;
});

export const stepAndWait = withDurableExecution((event, context) =>
  context.runInChildContext("step-and-wait", (inner) => echoAndWait(inner, event)),
);

// Logs, also while the context replays.
const alwaysLog = { modeAware: false };

export const largeResult = withDurableExecution(async (event, context) => {
  const large = await context.runInChildContext("large", async (inner) => {
    inner.configureLogger(alwaysLog);
    inner.logger.info(event);
    return (await echo(inner, "x")).repeat(300 * 1024);
  });
  await context.wait({ seconds: 1 });
  return large.length;
});

// Nothing in the new process remembers the lost one, but the record does.
let isFirst;
const remembering = { onInvocationStart: async (info) => void (isFirst = info.isFirstInvocation) };

export const interrupted = withDurableExecution(
  (event, context) =>
    context.runInChildContext((inner) =>
      inner.step(async () => {
        if (isFirst) await loseProcess();
        return event;
      }),
    ),
  { plugins: [remembering] },
);

export const waitInside = withDurableExecution(async (event, context) => {
  const value = await context.runInChildContext("waiting", async (inner) => {
    await inner.wait({ seconds: 1 });
    return event;
  });
  return echo(context, value);
});

export const customCodec = withDurableExecution((event, context) =>
  context.runInChildContext("shouting", (inner) => echo(inner, event), { serdes: shouting }),
);

export const failsWithoutStep = withDurableExecution((_event, context) =>
  context.runInChildContext("failing", refuse),
);

export const nullResult = withDurableExecution((_event, context) =>
  context.runInChildContext("nothing", giving(null)),
);

export const onlyLogs = withDurableExecution(async (event, context) => {
  const value = await context.runInChildContext("logging", async (inner) => {
    inner.configureLogger(alwaysLog);
    inner.logger.info(event);
    return event;
  });
  await context.wait({ seconds: 1 });
  return value;
});

export const insideAndAfter = withDurableExecution(async (event, context) => {
  const value = await context.runInChildContext("inside", (inner) => echoAndWait(inner, event));
  return echoAndWait(context, value);
});
