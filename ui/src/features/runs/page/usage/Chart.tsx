/** One curve over time, with lines for what was asked for and what is allowed. The keyboard goes from value to value. */
import { type KeyboardEvent, type PointerEvent, useLayoutEffect, useRef, useState } from "react";
import { showDuration } from "../../../../format/durations";
import type { Bounds, Measure } from "./bounds";
import classes from "./Chart.module.css";
import { isBytes, showMeasure, showTick } from "./measures";
import { scaleOf, scaleOfTimes } from "./scales";

export interface Point {
  /** Milliseconds after the start. */
  after: number;
  value: number;
}

interface Props {
  label: string;
  measure: Measure;
  points: Point[];
  /** The most of all, between the samples too. */
  peak: number;
  bounds: Bounds;
}

const HEIGHT = 190;
const LEAST_WIDTH = 240;
const AT_ONCE_MS = 100;
const NEARLY = 1.1;
const EDGE = { left: 68, right: 12, top: 10, bottom: 24 };

export function Chart({ label, measure, points, peak, bounds }: Props) {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(LEAST_WIDTH);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) =>
      setWidth(Math.max(LEAST_WIDTH, entry!.contentRect.width)),
    );
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  const [chosen, setChosen] = useState<number | null>(null);
  const across = scaleOfTimes(points.at(-1)?.after ?? 0, Math.max(2, Math.floor(width / 90)));
  const up = scaleOf(Math.max(peak, bounds.request ?? 0, bounds.limit ?? 0), 4, isBytes(measure));
  const x = (after: number) => EDGE.left + (after / across.most) * (width - EDGE.left - EDGE.right);
  const y = (value: number) => HEIGHT - EDGE.bottom - (value / up.most) * (HEIGHT - EDGE.top - EDGE.bottom);
  const last = points.length - 1;
  const shown = chosen === null ? null : points[Math.min(chosen, last)];
  const tell = (point: Point) => `${showMeasure(measure, point.value)} ${tellWhen(point)}`;
  const point = ({ clientX, currentTarget }: PointerEvent) => {
    const at = clientX - currentTarget.getBoundingClientRect().left;
    setChosen(nearest(points, at, x));
  };
  const press = (event: KeyboardEvent) => {
    const next = nextPlace(event.key, chosen ?? last, last);
    if (next === null) return;
    event.preventDefault();
    setChosen(next);
  };
  return (
    <div
      ref={ref}
      className={classes.chart}
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, last)}
      aria-valuenow={Math.max(0, Math.min(chosen ?? last, last))}
      aria-valuetext={points.length > 0 ? tell(shown ?? points[last]!) : "nothing was measured"}
      onPointerMove={point}
      onPointerLeave={() => setChosen(null)}
      onKeyDown={press}
      onBlur={() => setChosen(null)}
    >
      <svg width={width} height={HEIGHT} aria-hidden="true">
        {up.ticks.map((tick) => (
          <g key={tick}>
            <line className={classes.grid} x1={EDGE.left} x2={width - EDGE.right} y1={y(tick)} y2={y(tick)} />
            <text className={classes.tick} x={EDGE.left - 8} y={y(tick) + 4} textAnchor="end">
              {showTick(measure, tick)}
            </text>
          </g>
        ))}
        {across.ticks.map((tick) => (
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
        {isMissed(points, peak) && <Bound kind="peak" value={peak} y={y} width={width} />}
        {shown && (
          <g>
            <line
              className={classes.cursor}
              x1={x(shown.after)}
              x2={x(shown.after)}
              y1={EDGE.top}
              y2={y(0)}
            />
            <circle className={classes.dot} cx={x(shown.after)} cy={y(shown.value)} r={4} />
          </g>
        )}
      </svg>
      {shown && (
        <div className={`${classes.value} number`} aria-hidden="true">
          {tell(shown)}
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
  /** Whether its word stands below the line: above it stands another. */
  isBelow?: boolean;
}

function Bound({ kind, value, y, width, isBelow }: BoundProps) {
  if (value === null || value <= 0) return null;
  // A word that would stand above the upper edge stands below its line.
  const offset = isBelow || y(value) < EDGE.top + 12 ? 13 : -5;
  return (
    <g className={classes.bound} data-kind={kind}>
      <line x1={EDGE.left} x2={width - EDGE.right} y1={y(value)} y2={y(value)} />
      <text
        // What was measured stands apart from what was said.
        x={kind === "peak" ? EDGE.left + 4 : width - EDGE.right - 4}
        y={y(value) + offset}
        textAnchor={kind === "peak" ? "start" : "end"}
      >
        {kind}
      </text>
    </g>
  );
}

/** Whether the most of all was between the samples: what is killed for its memory seldom lives to the next one. */
function isMissed(points: Point[], peak: number): boolean {
  return peak > NEARLY * Math.max(0, ...points.map((point) => point.value));
}

function tellWhen({ after }: Point): string {
  return after < AT_ONCE_MS ? "at the start" : `after ${showDuration(after)}`;
}

function nearest(points: Point[], at: number, x: (after: number) => number): number | null {
  let best: number | null = null;
  let least = Number.POSITIVE_INFINITY;
  points.forEach((point, index) => {
    const distance = Math.abs(x(point.after) - at);
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

function nextPlace(key: string, from: number, last: number): number | null {
  const tenth = Math.max(1, Math.round(last / 10));
  const places: Record<string, number> = {
    ArrowLeft: from - 1,
    ArrowDown: from - 1,
    ArrowRight: from + 1,
    ArrowUp: from + 1,
    PageDown: from - tenth,
    PageUp: from + tenth,
    Home: 0,
    End: last,
  };
  const place = places[key];
  return place === undefined || last < 0 ? null : Math.max(0, Math.min(last, place));
}
