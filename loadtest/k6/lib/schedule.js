/**
 * When requests are sent, and what part of the run that is.
 *
 * All schedules are open loops: a send time never waits for an answer, so a slow server meets the same load as a fast
 * one. Virtual users are only hands to send with; when too few are free, requests are dropped or late, and both fail.
 */

import exec from "k6/execution";
import { exponential, generator } from "./random.js";

/** Virtual users kept ready by default: enough for answers of so many seconds, and never fewer than `LEAST_USERS`. */
const READY_SECONDS = 10;
const LEAST_USERS = 10;
/** An iteration begins so long before its request is due: scripts are slow enough for a long body to take milliseconds. */
const LEAD_MS = 100;
/** Time for the last requests after their timeout, so that k6 cuts none off: it would count as failed. */
const GRACE_MS = 5000;
/** k6 takes whole numbers per unit of time; with this unit a rate may have three decimals. */
const UNIT_S = 1000;

/** Milliseconds since the run began, with fractions. */
export function elapsedMs() {
  return exec.instance.currentTestRunDuration;
}

/**
 * Returns whether limits on time apply yet.
 * @param {import("./settings.js").Settings} settings
 * @param {number} atMs
 */
export function phase(settings, atMs) {
  return atMs < settings.WARMUP_MS ? "warm-up" : "measured";
}

/**
 * Returns how many virtual users to keep ready for so many requests a second that each take `extraMs` longer.
 * @param {import("./settings.js").Settings} settings
 * @param {number} rate
 * @param {number} extraMs
 */
function users(settings, rate, extraMs = 0) {
  return settings.USERS || Math.max(LEAST_USERS, Math.ceil(rate * (READY_SECONDS + extraMs / 1000)));
}

/**
 * Returns a scenario that begins iterations evenly.
 * @param {import("./settings.js").Settings} settings
 * @param {number} rate per second
 * @param {number} extraMs for which an iteration goes on beside its request
 * @returns {import("k6/options").Scenario}
 */
export function evenly(settings, rate, extraMs = 0) {
  const ready = users(settings, rate, extraMs);
  return {
    executor: "constant-arrival-rate",
    rate: perUnit(rate),
    timeUnit: `${UNIT_S}s`,
    duration: `${settings.WARMUP_MS + settings.DURATION_MS}ms`,
    preAllocatedVUs: ready,
    maxVUs: ready,
    gracefulStop: `${settings.TIMEOUT_MS + GRACE_MS}ms`,
  };
}

/**
 * Returns when the request of the current iteration of an even schedule is due, in milliseconds since the run began.
 * @param {number} rate the one given to `evenly`
 */
export function dueMs(rate) {
  return LEAD_MS + (exec.scenario.iterationInTest * UNIT_S * 1000) / perUnit(rate);
}

/** @param {number} rate */
function perUnit(rate) {
  return Math.max(1, Math.round(rate * UNIT_S));
}

/**
 * @typedef {object} Send
 * @property {number} atMs since the run began
 * @property {"on" | "off"} burst
 */

/**
 * Returns send times with exponential gaps whose rate changes between bursts and pauses, the mean being RATE. It begins
 * with a pause.
 * @param {import("./settings.js").Settings} settings
 * @returns {Send[]}
 */
export function burstTrace(settings) {
  const { BURST, ON_MS, OFF_MS, RATE } = settings;
  const endMs = settings.WARMUP_MS + settings.DURATION_MS;
  const share = ON_MS / (ON_MS + OFF_MS);
  const offRate = RATE / (share * BURST + 1 - share);
  const draw = generator(settings.SEED, "burst", 0);
  /** @type {Send[]} */
  const sends = [];
  for (let beginMs = 0, isOn = false; beginMs < endMs; isOn = !isOn) {
    const untilMs = Math.min(endMs, beginMs + (isOn ? ON_MS : OFF_MS));
    const meanMs = 1000 / (isOn ? offRate * BURST : offRate);
    // A gap that reaches over the end is drawn anew from there: exponential gaps have no memory.
    for (let atMs = beginMs + exponential(draw, meanMs); atMs < untilMs; atMs += exponential(draw, meanMs)) {
      sends.push({ atMs, burst: isOn ? "on" : "off" });
    }
    beginMs = untilMs;
  }
  return sends;
}

/**
 * Returns a scenario that gives each send of a trace to the next free virtual user, who waits for its time.
 * @param {import("./settings.js").Settings} settings
 * @param {Send[]} sends
 * @returns {import("k6/options").Scenario}
 */
export function traced(settings, sends) {
  return {
    executor: "shared-iterations",
    vus: Math.min(sends.length, users(settings, settings.RATE * settings.BURST)),
    iterations: sends.length,
    maxDuration: `${settings.WARMUP_MS + settings.DURATION_MS + settings.TIMEOUT_MS + GRACE_MS}ms`,
    gracefulStop: "0s",
  };
}
