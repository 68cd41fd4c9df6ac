/** The request, limit and peak usage for each resource of a run. */
import { Table } from "@mantine/core";
import { type Run, usePlanOf } from "../../../../api/runs";
import { Card } from "../../../../shell/Page";
import { NONE } from "../../../../table/columns";
import { useUsage } from "../requests";
import { boundsOf, type Measure } from "../usage/bounds";
import { isRelevant, MEASURES, showMeasure } from "../usage/measures";

export function Amounts({ run }: { run: Run }) {
  const plan = usePlanOf(run.id);
  const usage = useUsage(run);
  if (!plan.data) return null;
  const rows = MEASURES.map(({ key, title }) => ({
    key,
    title,
    bounds: boundsOf(plan.data.settings, key),
    peak: usage.data?.peaks[key],
  })).filter(({ bounds, peak }) => isRelevant(bounds, peak));
  if (rows.length === 0) return null;
  return (
    <Card title="Resources">
      <Table fz="sm" aria-label="Resources">
        <Table.Thead>
          <Table.Tr>
            <Table.Th />
            <Table.Th fw={400} c="dimmed" ta="right">
              Requested
            </Table.Th>
            <Table.Th fw={400} c="dimmed" ta="right">
              Limit
            </Table.Th>
            <Table.Th fw={400} c="dimmed" ta="right">
              Peak
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(({ key, title, bounds, peak }) => (
            <Table.Tr key={key} className="number">
              <Table.Th fw={400} c="dimmed" scope="row">
                {title}
              </Table.Th>
              <Table.Td ta="right">{show(key, bounds.request)}</Table.Td>
              <Table.Td ta="right">{show(key, bounds.limit)}</Table.Td>
              <Table.Td ta="right">{show(key, peak)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}

function show(measure: Measure, amount: number | null | undefined): string {
  return amount === null || amount === undefined ? NONE : showMeasure(measure, amount);
}
