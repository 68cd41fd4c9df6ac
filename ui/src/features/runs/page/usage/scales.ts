/** Scales and ticks for chart axes. */

/** An axis from 0 to `max`. */
export interface Scale {
  max: number;
  ticks: number[];
}

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];
// Space for the label above the highest line.
const HEADROOM = 1.08;

/** Places ticks at 1, 2 or 5 times a power of ten, or at powers of two for bytes. */
export function scaleOf(max: number, count: number, inBytes: boolean): Scale {
  const top = max > 0 ? max * HEADROOM : 1;
  const step = inBytes ? stepOfBytes(top / count) : stepOf(top / count);
  const ticks = [];
  for (let tick = 0; tick <= top; tick += step) ticks.push(tick);
  return { max: top, ticks };
}

/** Places ticks for times in milliseconds at whole seconds, minutes and hours. */
export function scaleOfTimes(max: number, count: number): Scale {
  const top = Math.max(max, 1000);
  const minStep = top / 1000 / count;
  const step = 1000 * (TIMES.find((seconds) => seconds >= minStep) ?? Math.ceil(minStep / 86_400) * 86_400);
  const ticks = [];
  for (let tick = 0; tick <= top; tick += step) ticks.push(tick);
  return { max: top, ticks };
}

function stepOf(min: number): number {
  const power = 10 ** Math.floor(Math.log10(min));
  return power * ([1, 2, 5].find((factor) => power * factor >= min) ?? 10);
}

function stepOfBytes(min: number): number {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(min, 1)) / Math.log(1024)));
  return unit * 2 ** Math.ceil(Math.log2(Math.max(min, 1) / unit));
}
