/** A line chart of values over time, with lines for the request and limit. Arrow keys move between values. */
import { type KeyboardEvent, type PointerEvent, useLayoutEffect, useRef, useState } from "react";
import { showDuration } from "../../../../format/durations";
import type { Bounds, Measure } from "./bounds";
import classes from "./Chart.module.css";
import { isBytes, showMeasure, showTick } from "./measures";
import { scaleOf, scaleOfTimes } from "./scales";

export interface Point {
  /** Milliseconds since the start. */
  after: number;
  value: number;
}

interface Props {
  label: string;
  measure: Measure;
  points: Point[];
  /** The highest value, which may have occurred between two samples. */
  peak: number;
  bounds: Bounds;
}

const HEIGHT = 190;
const MIN_WIDTH = 240;
/** Points before this time are labeled "at the start". */
const START_MS = 100;
/** A peak is shown if it exceeds all samples by this factor. */
const PEAK_FACTOR = 1.1;
const MARGIN = { left: 68, right: 12, top: 10, bottom: 24 };

export function Chart({ label, measure, points, peak, bounds }: Props) {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(MIN_WIDTH);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(MIN_WIDTH, entry!.contentRect.width)));
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  const [selected, setSelected] = useState<number | null>(null);
  const timeScale = scaleOfTimes(points.at(-1)?.after ?? 0, Math.max(2, Math.floor(width / 90)));
  const valueScale = scaleOf(Math.max(peak, bounds.request ?? 0, bounds.limit ?? 0), 4, isBytes(measure));
  const x = (after: number) => MARGIN.left + (after / timeScale.max) * (width - MARGIN.left - MARGIN.right);
  const y = (value: number) =>
    HEIGHT - MARGIN.bottom - (value / valueScale.max) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const last = points.length - 1;
  const shown = selected === null ? null : points[Math.min(selected, last)];
  const describe = (point: Point) => `${showMeasure(measure, point.value)} ${describeTime(point)}`;
  const hover = ({ clientX, currentTarget }: PointerEvent) => {
    const at = clientX - currentTarget.getBoundingClientRect().left;
    setSelected(nearest(points, at, x));
  };
  const handleKey = (event: KeyboardEvent) => {
    const next = nextIndex(event.key, selected ?? last, last);
    if (next === null) return;
    event.preventDefault();
    setSelected(next);
  };
  return (
    <div
      ref={ref}
      className={classes.chart}
      // Screen readers announce the value of a slider when an arrow key changes it.
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, last)}
      aria-valuenow={Math.max(0, Math.min(selected ?? last, last))}
      aria-valuetext={points.length > 0 ? describe(shown ?? points[last]!) : "no data"}
      onPointerMove={hover}
      onPointerLeave={() => setSelected(null)}
      onKeyDown={handleKey}
      onBlur={() => setSelected(null)}
    >
      <svg width={width} height={HEIGHT} aria-hidden="true">
        {valueScale.ticks.map((tick) => (
          <g key={tick}>
            <line
              className={classes.grid}
              x1={MARGIN.left}
              x2={width - MARGIN.right}
              y1={y(tick)}
              y2={y(tick)}
            />
            <text className={classes.tick} x={MARGIN.left - 8} y={y(tick) + 4} textAnchor="end">
              {showTick(measure, tick)}
            </text>
          </g>
        ))}
        {timeScale.ticks.map((tick) => (
          <text key={tick} className={classes.tick} x={x(tick)} y={HEIGHT - 6} textAnchor="middle">
            {tick === 0 ? "start" : showDuration(tick).replace(".0", "")}
          </text>
        ))}
        <Curve points={points} x={x} y={y} />
        <Bound
          kind="request"
          value={bounds.request}
          isBelow={bounds.limit === bounds.request}
          y={y}
          width={width}
        />
        <Bound kind="limit" value={bounds.limit} y={y} width={width} />
        {isBetweenSamples(points, peak) && <Bound kind="peak" value={peak} y={y} width={width} />}
        {shown && (
          <g>
            <line
              className={classes.cursor}
              x1={x(shown.after)}
              x2={x(shown.after)}
              y1={MARGIN.top}
              y2={y(0)}
            />
            <circle className={classes.dot} cx={x(shown.after)} cy={y(shown.value)} r={4} />
          </g>
        )}
      </svg>
      {shown && (
        <div className={`${classes.value} number`} aria-hidden="true">
          {describe(shown)}
        </div>
      )}
    </div>
  );
}

interface CurveProps {
  points: Point[];
  x: (after: number) => number;
  y: (value: number) => number;
}

function Curve({ points, x, y }: CurveProps) {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last) return null;
  if (points.length === 1)
    return <circle className={classes.dot} cx={x(first.after)} cy={y(first.value)} r={3} />;
  const line = points.map((point) => `${x(point.after).toFixed(1)},${y(point.value).toFixed(1)}`).join(" ");
  return (
    <>
      <polygon
        className={classes.area}
        points={`${x(first.after)},${y(0)} ${line} ${x(last.after)},${y(0)}`}
      />
      <polyline className={classes.curve} points={line} />
    </>
  );
}

interface BoundProps {
  kind: "request" | "limit" | "peak";
  value: number | null;
  y: (value: number) => number;
  width: number;
  /** Places the label below the line, because another label is above it. */
  isBelow?: boolean;
}

function Bound({ kind, value, y, width, isBelow }: BoundProps) {
  if (value === null || value <= 0) return null;
  // Labels that would not fit above the line are placed below it.
  const offset = isBelow || y(value) < MARGIN.top + 12 ? 13 : -5;
  return (
    <g className={classes.bound} data-kind={kind}>
      <line x1={MARGIN.left} x2={width - MARGIN.right} y1={y(value)} y2={y(value)} />
      <text
        // The peak's label is on the left; the request and limit labels are on the right.
        x={kind === "peak" ? MARGIN.left + 4 : width - MARGIN.right - 4}
        y={y(value) + offset}
        textAnchor={kind === "peak" ? "start" : "end"}
      >
        {kind}
      </text>
    </g>
  );
}

/** Whether the samples missed the peak, as is typical for runs killed because of their memory usage. */
function isBetweenSamples(points: Point[], peak: number): boolean {
  return peak > PEAK_FACTOR * Math.max(0, ...points.map((point) => point.value));
}

function describeTime({ after }: Point): string {
  return after < START_MS ? "at the start" : `after ${showDuration(after)}`;
}

function nearest(points: Point[], at: number, x: (after: number) => number): number | null {
  let best: number | null = null;
  let minDistance = Number.POSITIVE_INFINITY;
  points.forEach((point, index) => {
    const distance = Math.abs(x(point.after) - at);
    if (distance < minDistance) [best, minDistance] = [index, distance];
  });
  return best;
}

function nextIndex(key: string, from: number, last: number): number | null {
  const tenth = Math.max(1, Math.round(last / 10));
  const targets: Record<string, number> = {
    ArrowLeft: from - 1,
    ArrowDown: from - 1,
    ArrowRight: from + 1,
    ArrowUp: from + 1,
    PageDown: from - tenth,
    PageUp: from + tenth,
    Home: 0,
    End: last,
  };
  const target = targets[key];
  return target === undefined || last < 0 ? null : Math.max(0, Math.min(last, target));
}
