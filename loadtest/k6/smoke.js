/**
 * Smoke: one request of each kind. Is this deployment wired up and does it answer as it should?
 *
 * Any deviation fails the run, whatever the limits of the other scripts are. It asks for what Spillway promises: a server
 * asked directly may take unknown models, and then fails here.
 */

import http from "k6/http";
import { check } from "k6";
import { parse } from "./lib/answer.js";
import { question } from "./lib/prompts.js";
import { header, headers, prepare } from "./lib/request.js";
import { describe, readSettings } from "./lib/settings.js";
import { STATISTICS, summarise } from "./lib/summary.js";
import { thresholds } from "./lib/thresholds.js";

/** A name that nobody serves. */
const UNKNOWN_MODEL = "no-such-model-3f9a";
const ANSWERS = 4;

const settings = readSettings(__ENV, { PROMPT_TOKENS: "20", MAX_TOKENS: "16", WARMUP: "0s" });

export const options = {
  scenarios: {
    smoke: {
      executor: "per-vu-iterations",
      vus: 1,
      iterations: 1,
      maxDuration: `${10 * settings.TIMEOUT_MS}ms`,
    },
  },
  thresholds: {
    ...thresholds({ ...settings, ERROR_RATE: 0, REFUSAL_RATE: 0 }),
    answered: [`count==${ANSWERS}`],
  },
  summaryTrendStats: STATISTICS,
};

export function setup() {
  console.info(describe(settings));
}

export default function () {
  const tags = { phase: "measured" };
  checkModels();
  const text = question(settings.SEED, 0, settings.PROMPT_TOKENS);
  const messages = [{ role: /** @type {const} */ ("user"), content: text }];
  prepare(settings, { kind: "chat", stream: false, messages, tags })();
  prepare(settings, { kind: "streamed chat", stream: true, messages, tags })();
  prepare(settings, { kind: "completion", stream: false, prompt: text, tags })();
  prepare(settings, { kind: "streamed completion", stream: true, prompt: text, tags })();
  checkError("unknown model", JSON.stringify({ model: UNKNOWN_MODEL, messages }), 404, "model_not_found");
  checkError("empty body", "", 400, "invalid_json");
}

function checkModels() {
  const response = http.get(`${settings.BASE}/v1/models`, { headers: headers(settings), timeout: settings.TIMEOUT_MS });
  const list = parse(String(response.body));
  check(response, {
    "models: status is 200": () => response.status === 200,
    "models: is a list": () => list?.object === "list" && Array.isArray(list.data),
    [`models: ${settings.MODEL} is listed`]: () =>
      Boolean(list?.data?.some?.((/** @type {{id?: unknown}} */ model) => model.id === settings.MODEL)),
  });
}

/**
 * @param {string} name
 * @param {string} body
 * @param {number} status that it must have
 * @param {string} code that it must name
 */
function checkError(name, body, status, code) {
  const expected = http.expectedStatuses(status);
  const params = { headers: headers(settings), timeout: settings.TIMEOUT_MS, responseCallback: expected };
  const response = http.post(`${settings.BASE}/v1/chat/completions`, body, params);
  const error = parse(String(response.body))?.error;
  check(response, {
    [`${name}: status is ${status}`]: () => response.status === status,
    [`${name}: is JSON`]: () => (header(response, "content-type") ?? "").startsWith("application/json"),
    [`${name}: has OpenAI's shape`]: () =>
      typeof error?.message === "string" && typeof error.type === "string" && "param" in error,
    [`${name}: code is ${code}`]: () => error?.code === code,
    [`${name}: has a request id`]: () => Boolean(header(response, "x-request-id")),
  });
}

/** @param {import("./lib/summary.js").Data} data */
export function handleSummary(data) {
  return summarise("smoke", settings, data);
}
