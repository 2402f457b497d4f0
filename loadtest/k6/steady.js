/**
 * Steady: chats at an even rate. What does one request take under this load, and does any fail?
 *
 * The rate is sent whatever the answers take. If too few virtual users are free, requests are dropped, and the run fails.
 */

import exec from "k6/execution";
import { question } from "./lib/prompts.js";
import { prepare } from "./lib/request.js";
import { dueMs, evenly, phase } from "./lib/schedule.js";
import { describe, readSettings } from "./lib/settings.js";
import { STATISTICS, summarise } from "./lib/summary.js";
import { thresholds } from "./lib/thresholds.js";

const settings = readSettings(__ENV);

export const options = {
  scenarios: { steady: evenly(settings, settings.RATE) },
  thresholds: thresholds(settings, ["phase:warm-up"]),
  summaryTrendStats: STATISTICS,
};

export function setup() {
  console.info(describe(settings));
}

export default function () {
  const due = dueMs(settings.RATE);
  const content = question(settings.SEED, exec.scenario.iterationInTest, settings.PROMPT_TOKENS);
  prepare(settings, {
    kind: "chat",
    stream: settings.STREAM,
    messages: [{ role: "user", content }],
    tags: { phase: phase(settings, due) },
  })(due);
}

/** @param {import("./lib/summary.js").Data} data */
export function handleSummary(data) {
  return summarise("steady", settings, data);
}
