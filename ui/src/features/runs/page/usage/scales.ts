/** Where values lie in a chart, and which of them stand at its sides. */

/** From 0 to a little more than the most that is shown. */
export interface Scale {
  most: number;
  ticks: number[];
}

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];
const HEADROOM = 1.08;

/** Round values: 1, 2 or 5 of a power of ten, or of the powers of two that bytes are told in. */
export function scaleOf(most: number, count: number, inBytes: boolean): Scale {
  const top = most > 0 ? most * HEADROOM : 1;
  const step = inBytes ? stepOfBytes(top / count) : stepOf(top / count);
  const ticks = [];
  for (let tick = 0; tick <= top; tick += step) ticks.push(tick);
  return { most: top, ticks };
}

/** Times in milliseconds, at whole seconds, minutes and hours. */
export function scaleOfTimes(most: number, count: number): Scale {
  const top = Math.max(most, 1000);
  const wanted = top / 1000 / count;
  const step = 1000 * (TIMES.find((seconds) => seconds >= wanted) ?? Math.ceil(wanted / 86_400) * 86_400);
  const ticks = [];
  for (let tick = 0; tick <= top; tick += step) ticks.push(tick);
  return { most: top, ticks };
}

function stepOf(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((factor) => power * factor >= least) ?? 10);
}

function stepOfBytes(least: number): number {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(least, 1)) / Math.log(1024)));
  return unit * 2 ** Math.ceil(Math.log2(Math.max(least, 1) / unit));
}
