/**
 * What a run came to: a table for people, and JSON for programs.
 *
 * k6 calls `handleSummary` once, after the last request, and decides its exit code from the limits on its own.
 */

import { withoutKey } from "./settings.js";
import { isShownOnly } from "./thresholds.js";

/** The statistics that the table shows; to be exported as k6's `summaryTrendStats`. */
export const STATISTICS = ["count", "med", "p(95)", "p(99)", "max"];

/** Trends in the order of the table, with what a reader should take them for. */
const TRENDS = [
  { metric: "stream_first_byte", title: "first byte, streams: TTFT behind Spillway, ms" },
  { metric: "plain_first_byte", title: "first byte, not streamed: no TTFT, ms" },
  { metric: "end_to_end", title: "end to end, ms" },
  { metric: "tokens_per_second", title: "tokens per second of one answer" },
  { metric: "schedule_lag", title: "sent later than intended, ms" },
];
const LABEL_WIDTH = 48;
const NUMBER_WIDTH = 9;

/**
 * The part of k6's summary data that is used here.
 * @typedef {object} Metric
 * @property {Record<string, number>} values
 * @property {Record<string, {ok: boolean}>} [thresholds]
 */
/** @typedef {{name: string, passes: number, fails: number}} Check */
/** @typedef {{metrics: Record<string, Metric>, state: {testRunDurationMs: number}, root_group: {checks: Check[]}}} Data */

/**
 * Returns what k6 is to write where.
 * @param {string} script its name
 * @param {import("./settings.js").Settings} settings
 * @param {Data} data
 * @returns {Record<string, string>}
 */
export function summarise(script, settings, data) {
  const out = { stdout: table(script, settings, data) };
  if (settings.SUMMARY === "") return out;
  const kept = { script, settings: withoutKey(settings), ...data };
  return { ...out, [settings.SUMMARY]: JSON.stringify(kept, null, 2) + "\n" };
}

/**
 * @param {string} script
 * @param {import("./settings.js").Settings} settings
 * @param {Data} data
 */
function table(script, settings, data) {
  const lines = ["", `${script}: ${settings.MODEL} at ${settings.BASE}, seed ${settings.SEED}`, ...outcomes(data)];
  lines.push("", row("", STATISTICS));
  for (const { metric, title } of TRENDS) {
    for (const [name, { values }] of selectors(data, metric)) {
      if (!values["count"]) continue;
      const label = name === metric ? title : `  ${name.slice(metric.length + 1, -1)}`;
      lines.push(row(label, STATISTICS.map((statistic) => format(values[statistic] ?? 0, statistic === "count"))));
    }
  }
  lines.push(...limits(data));
  for (const { name, passes, fails } of data.root_group.checks) {
    if (fails > 0) lines.push(`  FAIL  check "${name}" ${fails} of ${passes + fails}`);
  }
  return lines.join("\n") + "\n\n";
}

/** @param {Data} data */
function outcomes(data) {
  const count = (/** @type {string} */ name) => data.metrics[name]?.values["count"] ?? 0;
  const seconds = data.state.testRunDurationMs / 1000;
  const refused = data.metrics["refusals"]?.values["passes"] ?? 0;
  const failed = data.metrics["errors"]?.values["passes"] ?? 0;
  const requests = count("answered") + refused + failed + count("left");
  const tagged = (/** @type {string} */ name) =>
    selectors(data, name)
      .filter(([selector, { values }]) => selector !== name && values["count"])
      .map(([selector, { values }]) => `${selector.slice(selector.indexOf(":") + 1, -1)} ${values["count"]}`)
      .join(", ");
  const lines = [
    `requests ${requests} in ${seconds.toFixed(1)} s (${(requests / seconds).toFixed(2)}/s): answered ${count("answered")}, ` +
      `refused ${refused} (${share(refused, requests)}), failed ${failed} (${share(failed, requests)}), left ${count("left")}`,
    `tokens: prompt ${count("prompt_tokens")} (${share(count("cached_tokens"), count("prompt_tokens"))} cached), ` +
      `completion ${count("completion_tokens")} (${(count("completion_tokens") / seconds).toFixed(1)}/s)`,
  ];
  const causes = tagged("failures");
  if (causes !== "") lines.push(`failed by cause: ${causes}`);
  const endpoints = tagged("by_endpoint");
  if (endpoints !== "") lines.push(`responses by endpoint: ${endpoints}`);
  return lines;
}

/** @param {Data} data */
function limits(data) {
  const lines = ["", "limits"];
  for (const [name, { values, thresholds }] of Object.entries(data.metrics).sort(byName)) {
    for (const [expression, { ok }] of Object.entries(thresholds ?? {})) {
      if (isShownOnly(expression)) continue;
      const statistic = expression.replace(/[<>=].*$/, "");
      const value = Number((values[statistic] ?? 0).toFixed(4));
      lines.push(`  ${ok ? "ok  " : "FAIL"}  ${name} ${expression} (${value})`);
    }
  }
  return lines;
}

/**
 * Returns a metric and its parts by tag, the whole first.
 * @param {Data} data
 * @param {string} metric
 */
function selectors(data, metric) {
  return Object.entries(data.metrics)
    .filter(([name]) => name === metric || name.startsWith(`${metric}{`))
    .sort(byName);
}

/**
 * @param {[string, unknown]} one
 * @param {[string, unknown]} other
 */
function byName([one], [other]) {
  return one < other ? -1 : 1;
}

/**
 * @param {string} label
 * @param {string[]} cells
 */
function row(label, cells) {
  return label.padEnd(LABEL_WIDTH) + cells.map((cell) => cell.padStart(NUMBER_WIDTH)).join("");
}

/**
 * @param {number} value
 * @param {boolean} isCount
 */
function format(value, isCount) {
  return isCount || value >= 1000 ? value.toFixed(0) : value.toFixed(1);
}

/**
 * @param {number} part
 * @param {number} whole
 */
function share(part, whole) {
  return `${whole === 0 ? 0 : ((100 * part) / whole).toFixed(2)} %`;
}
