/**
 * LoRA: chats at an even rate, each for one of the adapters. What do rare adapters pay for having to be loaded?
 *
 * The first adapter of the list is the most popular, by Zipf's law.
 */

import exec from "k6/execution";
import { question } from "./lib/prompts.js";
import { generator, zipf } from "./lib/random.js";
import { prepare } from "./lib/request.js";
import { dueMs, evenly, phase } from "./lib/schedule.js";
import { describe, readSettings } from "./lib/settings.js";
import { STATISTICS, summarise } from "./lib/summary.js";
import { thresholds } from "./lib/thresholds.js";

/** Adapters with a line of their own in the summary. */
const SHOWN = 12;

const settings = readSettings(__ENV);
const drawAdapter = zipf(settings.ADAPTERS.length, settings.ZIPF);

export const options = {
  scenarios: { lora: evenly(settings, settings.RATE) },
  thresholds: thresholds(settings, settings.ADAPTERS.slice(0, SHOWN).map((adapter) => `adapter:${adapter}`)),
  summaryTrendStats: STATISTICS,
};

export function setup() {
  console.info(describe(settings));
}

export default function () {
  const index = exec.scenario.iterationInTest;
  const due = dueMs(settings.RATE);
  const adapter = settings.ADAPTERS[drawAdapter(generator(settings.SEED, "adapter", index))] ?? settings.MODEL;
  const content = question(settings.SEED, index, settings.PROMPT_TOKENS);
  prepare(settings, {
    kind: "chat",
    model: adapter,
    stream: settings.STREAM,
    messages: [{ role: "user", content }],
    tags: { phase: phase(settings, due), adapter },
  })(due);
}

/** @param {import("./lib/summary.js").Data} data */
export function handleSummary(data) {
  return summarise("lora", settings, data);
}
