/** What a run used over time, against what it asked for and may use at most. */
import { SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { type Run, usePlanOf } from "../../../../api/runs";
import { showDuration } from "../../../../format/durations";
import { Folded } from "../../../../plans/Folded";
import { Loading } from "../../../../shell/Loading";
import { Card } from "../../../../shell/Page";
import { ProblemAlert } from "../../../../shell/Problem";
import { AttemptPicker, useAttempt } from "../attempts";
import { type Sample, type Usage, useUsage } from "../requests";
import { type Bounds, boundsOf, type Measure } from "./bounds";
import { Chart, type Point } from "./Chart";
import { isWorthTelling, MEASURES, showMeasure, tellPeak } from "./measures";

/** What is counted, where the numbers do not say it. */
const UNITS: Partial<Record<Measure, string>> = { cpu: "cores", gpu: "devices" };

export function UsageCharts({ run }: { run: Run }) {
  return (
    <Stack>
      <AttemptPicker run={run} none="Last attempt" />
      <Charts run={run} />
    </Stack>
  );
}

function Charts({ run }: { run: Run }) {
  const usage = useUsage(run, useAttempt(run));
  const plan = usePlanOf(run.id);
  if (!usage.data) {
    if (usage.error) return <ProblemAlert error={usage.error} onRetry={() => void usage.refetch()} />;
    return <Loading />;
  }
  const { peaks, series } = usage.data;
  const settings = plan.data?.settings ?? [];
  const measured = MEASURES.flatMap(({ key, title }) => {
    const [peak, bounds] = [peaks[key], boundsOf(settings, key)];
    return peak !== undefined && isWorthTelling(bounds, peak) ? [{ key, title, peak, bounds }] : [];
  });
  if (measured.length === 0) return <Text size="sm">{tellNothing(run)}</Text>;
  const start = Date.parse(run.started_at ?? series[0]?.at ?? run.created_at);
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
      {measured.map(({ key, title, peak, bounds }) => (
        <Measured
          key={key}
          measure={key}
          title={UNITS[key] ? `${title}, in ${UNITS[key]}` : title}
          peak={peak}
          cpuSeconds={key === "cpu" ? peaks.cpu_seconds : undefined}
          points={pointsOf(series, key, start)}
          bounds={bounds}
        />
      ))}
    </SimpleGrid>
  );
}

function tellNothing(run: Run): string {
  if (!run.started_at) {
    return run.live
      ? "It has not started yet. What it uses will appear here."
      : "It never started, and used nothing.";
  }
  return run.live ? "Nothing was measured yet." : "Nothing was measured.";
}

function pointsOf(series: Sample[], measure: Measure, start: number): Point[] {
  return series.flatMap((sample) => {
    const value = sample[measure];
    return value === undefined ? [] : [{ after: Math.max(0, Date.parse(sample.at) - start), value }];
  });
}

interface MeasuredProps {
  measure: Measure;
  title: string;
  peak: number;
  cpuSeconds: Usage["peaks"]["cpu_seconds"];
  points: Point[];
  bounds: Bounds;
}

function Measured({ measure, title, peak, cpuSeconds, points, bounds }: MeasuredProps) {
  const summary = [
    tellPeak(measure, peak, bounds),
    cpuSeconds !== undefined && `In all ${showDuration(cpuSeconds * 1000)} of CPU time.`,
  ];
  return (
    <Card title={title}>
      <Text size="sm" className="number">
        {summary.filter(Boolean).join(" ")}
      </Text>
      <Chart label={`${title} over time`} measure={measure} points={points} peak={peak} bounds={bounds} />
      {points.length > 0 && (
        <Folded title="As a table">
          <PointTable title={title} measure={measure} points={points} />
        </Folded>
      )}
    </Card>
  );
}

const MOST_ROWS = 100;

function PointTable({ title, measure, points }: { title: string; measure: Measure; points: Point[] }) {
  const step = Math.ceil(points.length / MOST_ROWS);
  const rows = points.filter((_, index) => index % step === 0);
  return (
    <Table fz="sm" aria-label={`${title} over time, as a table`}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>After</Table.Th>
          <Table.Th>{title}</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map((point, place) => (
          <Table.Tr key={`${point.after} ${place}`} className="number">
            <Table.Td>{showDuration(point.after)}</Table.Td>
            <Table.Td>{showMeasure(measure, point.value)}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
