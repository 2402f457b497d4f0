/**
 * Soak: hours of everything at a modest rate. Does anything leak, drift or break with time?
 *
 * Some clients leave before their answer has ended and some bodies are large; the rest are chats and completions,
 * streamed and not. The summary compares the first byte of the first, middle and last third of the run.
 */

import exec from "k6/execution";
import { question } from "./lib/prompts.js";
import { generator } from "./lib/random.js";
import { prepare } from "./lib/request.js";
import { dueMs, evenly, phase } from "./lib/schedule.js";
import { describe, readSettings } from "./lib/settings.js";
import { STATISTICS, summarise } from "./lib/summary.js";
import { thresholds } from "./lib/thresholds.js";

/** Of the ordinary requests: one in six in one piece, one in six a completion, the others streamed chats. */
const PLAIN_SHARE = 1 / 6;
const COMPLETION_SHARE = 1 / 6;
const THIRDS = ["first", "middle", "last"];

const settings = readSettings(__ENV, { RATE: "1", DURATION: "2h" });
const kinds = ["chat", "completion", "large", "leaver"];

export const options = {
  scenarios: { soak: evenly(settings, settings.RATE) },
  thresholds: thresholds({ ...settings, STREAM: true }, [
    ...THIRDS.map((third) => `third:${third}`),
    ...kinds.map((kind) => `kind:${kind}`),
  ]),
  summaryTrendStats: STATISTICS,
};

export function setup() {
  console.info(describe(settings));
}

/**
 * Returns what the request of an index is like.
 * @param {number} index
 * @param {string} text to ask
 * @returns {import("./lib/request.js").Request}
 */
function requestOf(index, text) {
  const { LARGE_BYTES, LARGE_SHARE, LEAVE_AFTER_MS, LEAVE_SHARE, SEED } = settings;
  const messages = [{ role: /** @type {const} */ ("user"), content: text }];
  const draw = generator(SEED, "kind", index);
  const kind = draw();
  if (kind < LEAVE_SHARE) return { kind: "leaver", stream: true, messages, patienceMs: LEAVE_AFTER_MS };
  if (kind < LEAVE_SHARE + LARGE_SHARE) return { kind: "large", stream: true, messages, bodyBytes: LARGE_BYTES };
  const form = draw();
  if (form < PLAIN_SHARE) return { kind: "chat", stream: false, messages };
  if (form < PLAIN_SHARE + COMPLETION_SHARE) return { kind: "completion", stream: true, prompt: text };
  return { kind: "chat", stream: true, messages };
}

/** @param {number} dueMs */
function third(dueMs) {
  const part = Math.floor((THIRDS.length * (dueMs - settings.WARMUP_MS)) / settings.DURATION_MS);
  return THIRDS[part] ?? "warm-up";
}

export default function () {
  const index = exec.scenario.iterationInTest;
  const due = dueMs(settings.RATE);
  const request = requestOf(index, question(settings.SEED, index, settings.PROMPT_TOKENS));
  prepare(settings, { ...request, tags: { phase: phase(settings, due), third: third(due) } })(due);
}

/** @param {import("./lib/summary.js").Data} data */
export function handleSummary(data) {
  return summarise("soak", settings, data);
}
