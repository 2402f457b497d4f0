/**
 * One request, from the body to what the metrics say of it.
 *
 * Each ends as exactly one of: answered, refused (429, 503), failed, or left (its client meant to go). Times and tokens
 * are recorded of answered ones only; a fast refusal must not look like a fast answer.
 */

import http from "k6/http";
import { check, sleep } from "k6";
import { readAnswer } from "./answer.js";
import * as metrics from "./metrics.js";
import { elapsedMs } from "./schedule.js";

/** k6's error code for a request that ran into its timeout. */
const TIMED_OUT = 1050;
/** Characters of a failed response to show. */
const EXCERPT = 200;

/** Only the first failure of each virtual user is logged; the summary counts the rest by cause. */
let hasComplained = false;

/**
 * @typedef {object} Request
 * @property {string} kind names it in checks, and tags it
 * @property {boolean} stream
 * @property {import("./prompts.js").Message[]} [messages] for a chat
 * @property {string} [prompt] for a completion, if there are no messages
 * @property {string} [model] if not the MODEL of the settings
 * @property {string} [session] the conversation's id, to be sent
 * @property {number} [bodyBytes] to which the body is filled up
 * @property {number} [patienceMs] after which the client leaves
 * @property {Record<string, string>} [tags]
 */

/**
 * Returns the body as it is sent. White space fills it up: every server takes it, and it costs no tokens.
 * @param {import("./settings.js").Settings} settings
 * @param {Request} request
 */
function writeBody(settings, request) {
  const { messages, prompt, stream } = request;
  const body = JSON.stringify({
    model: request.model ?? settings.MODEL,
    max_tokens: settings.MAX_TOKENS,
    ...(messages ? { messages } : { prompt }),
    ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
  });
  return body.slice(0, -1).padEnd((request.bodyBytes ?? 0) - 1) + "}";
}

/**
 * Returns the headers of every request.
 * @param {import("./settings.js").Settings} settings
 * @returns {Record<string, string>}
 */
export function headers(settings) {
  const json = { "content-type": "application/json" };
  return settings.API_KEY === "" ? json : { ...json, authorization: `Bearer ${settings.API_KEY}` };
}

/**
 * Returns the value of a response header, whatever case k6 gives its name.
 * @param {import("k6/http").Response} response
 * @param {string} name
 */
export function header(response, name) {
  const wanted = name.toLowerCase();
  for (const [key, value] of Object.entries(response.headers)) {
    if (key.toLowerCase() === wanted) return value;
  }
  return undefined;
}

/**
 * Prepares a request; what it returns sends it, records it, and returns the answer, or null if there is no whole one.
 * Bodies are written ahead of the send time this way. With the time when it is due, in milliseconds since the run began,
 * it waits until then; the schedule's lag is recorded, and all times of the request count from when it was due.
 * @param {import("./settings.js").Settings} settings
 * @param {Request} request
 * @returns {(dueMs?: number) => import("./answer.js").Answer | null}
 */
export function prepare(settings, request) {
  const body = writeBody(settings, request);
  const path = request.messages ? "/v1/chat/completions" : "/v1/completions";
  const session = request.session === undefined ? {} : { [settings.SESSION_HEADER]: request.session };
  const tags = { ...request.tags, kind: request.kind, name: path };
  const params = {
    headers: { ...headers(settings), ...session },
    tags,
    timeout: Math.min(request.patienceMs ?? Infinity, settings.TIMEOUT_MS),
  };
  return (dueMs) => {
    const lateMs = dueMs === undefined ? 0 : waitUntil(dueMs);
    if (dueMs !== undefined) metrics.scheduleLag.add(lateMs, tags);
    const response = http.post(`${settings.BASE}${path}`, body, params);
    return record(settings, request, response, lateMs, tags);
  };
}

/**
 * Waits, and returns by how much it is late.
 * @param {number} dueMs
 */
function waitUntil(dueMs) {
  const waitMs = dueMs - elapsedMs();
  if (waitMs > 0) sleep(waitMs / 1000);
  return elapsedMs() - dueMs;
}

/**
 * @param {import("./settings.js").Settings} settings
 * @param {Request} request
 * @param {import("k6/http").Response} response
 * @param {number} lateMs
 * @param {Record<string, string>} tags
 */
function record(settings, request, response, lateMs, tags) {
  const { status, timings } = response;
  const hasLeft = request.patienceMs !== undefined && response.error_code === TIMED_OUT;
  if (hasLeft) {
    metrics.left.add(1, tags);
    return null;
  }
  if (status > 0) {
    metrics.byEndpoint.add(1, { ...tags, endpoint: header(response, settings.ENDPOINT_HEADER) ?? "unnamed" });
  }
  const isRefused = status === 429 || status === 503;
  const answer = status === 200 ? readAnswer(response.body, request.stream) : null;
  const isAnswered = answer !== null && answer.problem === null;
  metrics.refusals.add(isRefused, tags);
  metrics.errors.add(!isRefused && !isAnswered, tags);
  if (isRefused) return null;

  const { kind } = request;
  check(response, { [`${kind}: status is 200`]: () => status === 200 }, tags);
  if (answer !== null) {
    const { problem, usage } = answer;
    check(response, { [`${kind}: answer is whole`]: () => problem === null }, tags);
    check(response, { [`${kind}: usage is reported`]: () => usage !== null }, tags);
  }
  if (!isAnswered) {
    metrics.failures.add(1, { ...tags, cause: cause(response) });
    complain(request, response, answer?.problem ?? null);
    return null;
  }

  // The time blocked has that of connecting in it.
  const firstByteMs = lateMs + timings.blocked + timings.sending + timings.waiting;
  const totalMs = lateMs + timings.blocked + timings.duration;
  (request.stream ? metrics.streamFirstByte : metrics.plainFirstByte).add(firstByteMs, tags);
  metrics.endToEnd.add(totalMs, tags);
  metrics.answered.add(1, tags);
  if (answer.usage !== null) {
    metrics.promptTokens.add(answer.usage.prompt, tags);
    metrics.cachedTokens.add(answer.usage.cached, tags);
    metrics.completionTokens.add(answer.usage.completion, tags);
    metrics.tokensPerSecond.add((answer.usage.completion * 1000) / totalMs, tags);
  }
  return answer;
}

/**
 * @param {import("k6/http").Response} response of a failed request
 * @returns {metrics.Cause}
 */
function cause(response) {
  if (response.error_code === TIMED_OUT) return "timeout";
  if (response.status === 0) return "connection";
  if (response.status === 200) return "body";
  if (response.status >= 500) return "5xx";
  return response.status >= 400 ? "4xx" : "other status";
}

/**
 * @param {Request} request
 * @param {import("k6/http").Response} response
 * @param {string | null} problem
 */
function complain(request, response, problem) {
  if (hasComplained) return;
  hasComplained = true;
  const body = String(response.body ?? "");
  const said = problem === null ? body.slice(0, EXCERPT) : `the answer ${problem}; it ends: ${body.slice(-EXCERPT)}`;
  const id = header(response, "x-request-id") ?? "none";
  console.warn(`${request.kind} failed: status ${response.status}, x-request-id ${id}. ${response.error || said}`);
}
