/**
 * Numbers that look random and are the same in every run with the same seed.
 *
 * `Math.random` is not used for load: two runs could not be compared. Each thing that is drawn has a generator of its
 * own, named by what it is for and by its index, so that it does not depend on which virtual user draws first.
 */

/** The golden ratio as a 32-bit fraction: steps by it visit every state before one comes again. */
const STEP = 0x9e3779b9;

/**
 * Returns a generator of numbers in [0, 1).
 * @param {number} seed
 * @param {string} what the draw is for
 * @param {number} index which of them
 */
export function generator(seed, what, index) {
  let state = scramble(seed);
  for (let at = 0; at < what.length; at++) state = scramble(state ^ what.charCodeAt(at));
  state = scramble(state ^ index);
  return () => {
    state = (state + STEP) | 0;
    return (scramble(state) >>> 0) / 2 ** 32;
  };
}

/**
 * Mixes the bits of a 32-bit number; a bijection.
 * @param {number} bits
 */
function scramble(bits) {
  let mixed = bits + STEP;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}

/**
 * Draws from the exponential distribution.
 * @param {() => number} draw
 * @param {number} mean
 */
export function exponential(draw, mean) {
  return -mean * Math.log(1 - draw());
}

/**
 * Draws a whole number from 1 with the given mean, each next one less likely by the same factor.
 * @param {() => number} draw
 * @param {number} mean at least 1
 */
export function geometric(draw, mean) {
  return mean <= 1 ? 1 : 1 + Math.floor(Math.log(1 - draw()) / Math.log(1 - 1 / mean));
}

/**
 * Returns a function that draws an index below `count` by Zipf's law: the k-th is k^exponent times rarer than the first.
 * @param {number} count at least 1
 * @param {number} exponent 0: all alike
 * @returns {(draw: () => number) => number}
 */
export function zipf(count, exponent) {
  let total = 0;
  const sums = Array.from({ length: count }, (_, index) => (total += (index + 1) ** -exponent));
  return (draw) => {
    const point = draw() * total;
    const index = sums.findIndex((sum) => point < sum);
    return index < 0 ? count - 1 : index;
  };
}
