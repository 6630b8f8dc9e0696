// Suite 5: invoking other functions.

import { withDurableExecution } from "@aws/durable-execution-sdk-js";
import { codec, giving, handled, refuse } from "./common.mjs";

const { ECHO, FAILING, TENANT_ECHO } = process.env;

// Targets; they wait so that their caller has suspended before they answer.
export const echo = withDurableExecution(async (event, context) => {
  await context.wait({ seconds: 1 });
  return event;
});

export const failing = withDurableExecution(async (_event, context) => {
  await context.wait({ seconds: 1 });
  return refuse();
});

// A text after an unnamed function would be taken for a function, so they are named.
const ask = (context, payload, config) => context.invoke("echo", ECHO, payload, config);

export const basic = withDurableExecution((event, context) => ask(context, event));

export const unnamed = withDurableExecution((event, context) => context.invoke(ECHO, event));

export const named = withDurableExecution((event, context) => context.invoke(event.name, ECHO, event.payload));

export const fails = withDurableExecution((_event, context) => context.invoke(FAILING, null));

export const failureHandled = withDurableExecution((_event, context) =>
  handled(context.invoke(FAILING, null), () => "fallback"),
);

export const largePayload = withDurableExecution(async (_event, context) => {
  const answer = await ask(context, "x".repeat(200_000));
  return answer.length;
});

export const forATenant = withDurableExecution(({ payload, tenantId }, context) =>
  context.invoke("echo", TENANT_ECHO, payload, { tenantId }),
);

export const replaySkips = withDurableExecution(async (_event, context) => {
  const answer = await ask(context, "once");
  await context.wait({ seconds: 1 });
  return answer;
});

export const replayThrowsAgain = withDurableExecution(async (_event, context) => {
  const answer = await handled(context.invoke(FAILING, null), (error) => error.message);
  await context.wait({ seconds: 1 });
  return answer;
});

export const afterAStep = withDurableExecution(async (_event, context) =>
  ask(context, await context.step(giving("from the step"))),
);

export const beforeAStep = withDurableExecution(async (_event, context) =>
  context.step(giving(await ask(context, "from the function"))),
);

export const insideAChild = withDurableExecution((_event, context) =>
  context.runInChildContext((inner) => ask(inner, "inside")),
);

export const sequential = withDurableExecution(async (_event, context) => {
  const first = await ask(context, "first");
  return ask(context, `${first}, second`);
});

export const payloadCodec = withDurableExecution((event, context) =>
  ask(context, event, { payloadSerdes: codec((value) => JSON.stringify(value).toUpperCase(), JSON.parse) }),
);

export const resultCodec = withDurableExecution((event, context) =>
  // The answer's text as it came, quotes included.
  ask(context, event, { resultSerdes: codec(JSON.stringify, (text) => text.toUpperCase()) }),
);
