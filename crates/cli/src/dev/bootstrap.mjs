// Runs a JavaScript handler for Outlast, over the Lambda Runtime API. Needs nothing but Node.
//
// Started by `outlast dev` with the environment of a Lambda function. It asks for an invocation,
// calls the handler, answers, and asks again. It ends when nobody answers any more.

import { existsSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const BASE = "/2018-06-01/runtime";
const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function request(method, name, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const bytes = body === undefined ? undefined : Buffer.from(body);
    if (bytes) headers = { ...headers, "Content-Length": bytes.length };
    const asked = http.request(
      { host, port, agent, method, path: BASE + name, headers },
      (answer) => {
        const pieces = [];
        answer.on("data", (piece) => pieces.push(piece));
        answer.on("error", reject);
        answer.on("end", () =>
          resolve({
            status: answer.statusCode,
            headers: answer.headers,
            body: Buffer.concat(pieces).toString("utf8"),
          }),
        );
      },
    );
    asked.setNoDelay(true);
    asked.on("error", reject);
    asked.end(bytes);
  });
}

function errorDocument(error) {
  if (!(error instanceof Error)) {
    return { errorType: typeof error, errorMessage: String(error), stackTrace: [] };
  }
  const stack = (error.stack ?? "").split("\n").slice(1).map((line) => line.trim());
  return { errorType: error.name, errorMessage: error.message, stackTrace: stack };
}

function fail(name, document) {
  return request("POST", name, JSON.stringify(document), {
    "Content-Type": "application/json",
    "Lambda-Runtime-Function-Error-Type": document.errorType.replace(/[^\x20-\x7e]/g, "?"),
  });
}

async function load(name) {
  const root = path.resolve(process.env.LAMBDA_TASK_ROOT ?? ".");
  const folder = path.dirname(name);
  const [, file, exported] = /^([^.]+)\.(.+)$/.exec(path.basename(name)) ?? [];
  if (!file) throw new Error(`the handler ${name} is not written as FILE.FUNCTION`);
  const base = path.resolve(root, folder, file);
  const found = [".js", ".mjs", ".cjs"].map((ending) => base + ending).find(existsSync);
  if (!found) {
    const typed = existsSync(`${base}.ts`);
    throw new Error(
      typed
        ? `${base}.ts is not compiled; run: sam build, then: outlast dev --template .aws-sam/build/template.yaml`
        : `there is no ${base}.js, .mjs or .cjs; correct Handler or CodeUri`,
    );
  }
  const module = await import(pathToFileURL(found).href);
  const pick = (from) => exported.split(".").reduce((value, part) => value?.[part], from);
  const handler = pick(module) ?? pick(module.default);
  if (typeof handler !== "function") {
    throw new Error(`${found} exports no function ${exported}; correct Handler, or export it`);
  }
  return handler;
}

// The command that gets what is missing.
function remedy(error) {
  const missing = /Cannot find (?:package|module) '([^'./][^']*)'/.exec(error?.message ?? "")?.[1];
  if (!missing) return undefined;
  const parts = missing.split("/");
  const name = parts.slice(0, missing.startsWith("@") ? 2 : 1).join("/");
  const root = path.resolve(process.env.LAMBDA_TASK_ROOT ?? ".");
  return `the package ${name} is missing; run: npm install --prefix ${root} ${name}`;
}

function contextOf(headers) {
  const deadline = Number(headers["lambda-runtime-deadline-ms"] ?? 0);
  const client = headers["lambda-runtime-client-context"];
  const identity = headers["lambda-runtime-cognito-identity"];
  return {
    awsRequestId: headers["lambda-runtime-aws-request-id"],
    invokedFunctionArn: headers["lambda-runtime-invoked-function-arn"],
    tenantId: headers["lambda-runtime-aws-tenant-id"],
    functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: process.env.AWS_LAMBDA_FUNCTION_VERSION,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
    logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
    clientContext: client ? JSON.parse(client) : undefined,
    identity: identity ? JSON.parse(identity) : undefined,
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => Math.max(0, deadline - Date.now()),
  };
}

// Handlers answer by a promise, or by calling back.
function call(handler, event, context) {
  return new Promise((resolve, reject) => {
    const back = (error, answer) => (error ? reject(error) : resolve(answer));
    context.done = back;
    context.succeed = resolve;
    context.fail = reject;
    const returned = handler(event, context, back);
    if (typeof returned?.then === "function") returned.then(resolve, reject);
    else if (handler.length < 3) resolve(returned);
  });
}

async function invoke(handler) {
  const { status, headers, body } = await request("GET", "/invocation/next");
  if (status !== 200) throw new Error(`no invocation: ${status} ${body}`);
  const id = headers["lambda-runtime-aws-request-id"];
  const trace = headers["lambda-runtime-trace-id"];
  if (trace) process.env._X_AMZN_TRACE_ID = trace;
  let answer;
  try {
    answer = JSON.stringify((await call(handler, JSON.parse(body), contextOf(headers))) ?? null);
  } catch (error) {
    console.error(error);
    await fail(`/invocation/${id}/error`, errorDocument(error));
    return;
  }
  await request("POST", `/invocation/${id}/response`, answer);
}

let handler;
try {
  handler = await load(process.env._HANDLER);
} catch (error) {
  console.error(error);
  const advice = remedy(error);
  const document = errorDocument(error);
  if (advice) {
    console.error(advice);
    document.errorType = "Runtime.ImportModuleError";
    document.errorMessage = advice;
  }
  await fail("/init/error", document);
  process.exit(1);
}
try {
  for (;;) await invoke(handler);
} catch {
  // Whoever had the invocations is gone.
  process.exit(0);
}
