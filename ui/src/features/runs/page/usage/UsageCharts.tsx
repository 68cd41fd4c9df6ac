/** Charts of a run's resource usage, with its requests and limits. */
import { SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { type Run, usePlanOf } from "../../../../api/runs";
import { showDuration } from "../../../../format/durations";
import { Collapsible } from "../../../../plans/Collapsible";
import { Loading } from "../../../../shell/Loading";
import { Card } from "../../../../shell/Page";
import { ProblemAlert } from "../../../../shell/Problem";
import { AttemptPicker, useAttempt } from "../attempts";
import { type Sample, type Usage, useUsage } from "../requests";
import { type Bounds, boundsOf, type Measure } from "./bounds";
import { Chart, type Point } from "./Chart";
import { describePeak, isRelevant, MEASURES, showMeasure } from "./measures";

/** Units for the titles of charts whose axis shows no unit. */
const UNITS: Partial<Record<Measure, string>> = { cpu: "cores", gpu: "devices" };

export function UsageCharts({ run }: { run: Run }) {
  return (
    <Stack>
      <AttemptPicker run={run} defaultLabel="Last attempt" />
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
    return peak !== undefined && isRelevant(bounds, peak) ? [{ key, title, peak, bounds }] : [];
  });
  if (measured.length === 0) return <Text size="sm">{describeMissing(run)}</Text>;
  const start = Date.parse(run.started_at ?? series[0]?.at ?? run.created_at);
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
      {measured.map(({ key, title, peak, bounds }) => (
        <Measured
          key={key}
          measure={key}
          title={UNITS[key] ? `${title} (${UNITS[key]})` : title}
          peak={peak}
          cpuSeconds={key === "cpu" ? peaks.cpu_seconds : undefined}
          points={pointsOf(series, key, start)}
          bounds={bounds}
        />
      ))}
    </SimpleGrid>
  );
}

function describeMissing(run: Run): string {
  if (!run.started_at) {
    return run.active ? "Not started yet. Usage will appear here." : "The run never started.";
  }
  return run.active ? "No measurements yet." : "No measurements.";
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
    describePeak(measure, peak, bounds),
    cpuSeconds !== undefined && `${showDuration(cpuSeconds * 1000)} CPU time`,
  ];
  return (
    <Card title={title}>
      <Text size="sm" className="number">
        {summary.filter(Boolean).join(" · ")}
      </Text>
      <Chart label={`${title} over time`} measure={measure} points={points} peak={peak} bounds={bounds} />
      {points.length > 0 && (
        <Collapsible title="Show as table">
          <PointTable title={title} measure={measure} points={points} />
        </Collapsible>
      )}
    </Card>
  );
}

const MAX_ROWS = 100;

function PointTable({ title, measure, points }: { title: string; measure: Measure; points: Point[] }) {
  const step = Math.ceil(points.length / MAX_ROWS);
  const rows = points.filter((_, index) => index % step === 0);
  return (
    <Table fz="sm" aria-label={`${title} over time (table)`}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Elapsed</Table.Th>
          <Table.Th>{title}</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map((point, index) => (
          <Table.Tr key={`${point.after} ${index}`} className="number">
            <Table.Td>{showDuration(point.after)}</Table.Td>
            <Table.Td>{showMeasure(measure, point.value)}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
