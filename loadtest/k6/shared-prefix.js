/**
 * Shared prefix: conversations over a few long system prompts. How much of the prompts comes from a cache?
 *
 * Conversations begin at an even rate, whatever the answers take; within one, a question follows the answer before it
 * after a time to think, and carries all that was said. Half of them send an id of the conversation, as some clients do.
 */

import { sleep } from "k6";
import { SharedArray } from "k6/data";
import exec from "k6/execution";
import { question, systemPrompt } from "./lib/prompts.js";
import { exponential, generator, geometric, zipf } from "./lib/random.js";
import { prepare } from "./lib/request.js";
import { dueMs, elapsedMs, evenly, phase } from "./lib/schedule.js";
import { describe, readSettings } from "./lib/settings.js";
import { STATISTICS, summarise } from "./lib/summary.js";
import { thresholds } from "./lib/thresholds.js";

/** Longest conversation, in means: the context of a model ends somewhere. */
const LONGEST = 3;

const settings = readSettings(__ENV, { DURATION: "2m", PROMPT_TOKENS: "50" });
const conversationRate = settings.RATE / settings.TURNS;
const thinkMs = settings.THINK_MS * (settings.TURNS - 1);
const endMs = settings.WARMUP_MS + settings.DURATION_MS;
const systemPrompts = new SharedArray("system prompts", () =>
  Array.from({ length: settings.GROUPS }, (_, group) => systemPrompt(settings.SEED, group, settings.PREFIX_TOKENS)),
);
const drawGroup = zipf(settings.GROUPS, settings.ZIPF);

export const options = {
  // Twice the mean: some think long, and have many turns.
  scenarios: { conversations: evenly(settings, conversationRate, 2 * thinkMs + 10_000 * settings.TURNS) },
  thresholds: thresholds(settings, ["turn:first", "turn:later"]),
  summaryTrendStats: STATISTICS,
};

export function setup() {
  console.info(describe(settings));
}

export default function () {
  const index = exec.scenario.iterationInTest;
  const due = dueMs(conversationRate);
  const draw = generator(settings.SEED, "conversation", index);
  const content = systemPrompts[drawGroup(draw)] ?? "";
  const hasId = draw() < 0.5;
  const turns = Math.min(geometric(draw, settings.TURNS), Math.ceil(LONGEST * settings.TURNS));
  /** @type {import("./lib/prompts.js").Message[]} */
  const messages = [{ role: "system", content }];

  for (let turn = 0; turn < turns; turn++) {
    const asked = Math.ceil(LONGEST * settings.TURNS) * index + turn;
    messages.push({ role: "user", content: question(settings.SEED, asked, settings.PROMPT_TOKENS) });
    const ask = prepare(settings, {
      kind: "chat",
      stream: settings.STREAM,
      messages,
      ...(hasId ? { session: `conversation-${settings.SEED}-${index}` } : {}),
      tags: { phase: phase(settings, turn === 0 ? due : elapsedMs()), turn: turn === 0 ? "first" : "later" },
    });
    const answer = turn === 0 ? ask(due) : ask();
    if (answer === null) return;
    messages.push({ role: "assistant", content: answer.readText() });
    const pauseMs = exponential(draw, settings.THINK_MS);
    if (turn + 1 === turns || elapsedMs() + pauseMs >= endMs) return;
    sleep(pauseMs / 1000);
  }
}

/** @param {import("./lib/summary.js").Data} data */
export function handleSummary(data) {
  return summarise("shared-prefix", settings, data);
}
