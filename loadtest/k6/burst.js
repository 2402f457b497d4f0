/**
 * Burst: chats at random times whose rate jumps up and down. What does a burst do to the first byte?
 *
 * All send times are fixed before the run, from the seed. A virtual user takes the next one and sleeps until it comes; if
 * all are busy by then the request goes late, and its times count from when it was due. `schedule_lag` shows it.
 */

import { SharedArray } from "k6/data";
import exec from "k6/execution";
import { question } from "./lib/prompts.js";
import { prepare } from "./lib/request.js";
import { burstTrace, phase, traced } from "./lib/schedule.js";
import { describe, readSettings } from "./lib/settings.js";
import { STATISTICS, summarise } from "./lib/summary.js";
import { thresholds } from "./lib/thresholds.js";

const settings = readSettings(__ENV, { DURATION: "2m" });
const sends = new SharedArray("sends", () => burstTrace(settings));
if (sends.length === 0) throw new Error("nothing was sent: at this RATE no request falls into DURATION");

export const options = {
  scenarios: { burst: traced(settings, sends) },
  thresholds: thresholds(settings, ["burst:on", "burst:off"]),
  summaryTrendStats: STATISTICS,
};

export function setup() {
  console.info(describe(settings));
}

export default function () {
  const index = exec.scenario.iterationInTest;
  const send = sends[index];
  if (send === undefined) return;
  const content = question(settings.SEED, index, settings.PROMPT_TOKENS);
  prepare(settings, {
    kind: "chat",
    stream: settings.STREAM,
    messages: [{ role: "user", content }],
    tags: { phase: phase(settings, send.atMs), burst: send.burst },
  })(send.atMs);
}

/** @param {import("./lib/summary.js").Data} data */
export function handleSummary(data) {
  return summarise("burst", settings, data);
}
