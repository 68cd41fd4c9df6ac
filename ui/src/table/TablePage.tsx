/** A page that is a table: what it is, what can be done, how to narrow it, and the rows. */
import { Button, Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Head } from "../shell/Page";
import { ProblemAlert } from "../shell/Problem";
import { ColumnPicker } from "./ColumnPicker";
import { AddFilter, FilterPills } from "./FilterBar";
import { SearchBox } from "./SearchBox";
import { Table, type TableProps } from "./Table";
import classes from "./TablePage.module.css";

interface Props<Item> extends Omit<TableProps<Item>, "empty" | "label"> {
  title: string;
  about: string;
  /** What makes a new one, and the like. */
  actions?: ReactNode;
  /** What can be done with the row that is selected. */
  selection?: ReactNode;
  /** What one may want to know where nothing is there yet. */
  none: { title: string; hint: ReactNode };
  /** Views that people want again and again, before what narrows them further. */
  usual?: ReactNode;
  /** How several of them are called: "compute resources". */
  nouns: string;
}

export function TablePage<Item>({
  title,
  about,
  actions,
  selection,
  none,
  usual,
  nouns,
  ...table
}: Props<Item>) {
  const { view, list, columns } = table;
  return (
    <div className={classes.page}>
      <Head title={title} about={about} actions={actions} />
      <Group gap="xs" justify="space-between">
        <Group gap="xs">
          {usual}
          <AddFilter columns={columns} view={view} />
          <SearchBox value={view.search} onSearch={view.setSearch} />
          <ColumnPicker columns={columns} chosen={view.columns} onChoose={view.setColumns} />
        </Group>
        {table.selected && (
          <Group gap="xs" role="toolbar" aria-label={`Actions for ${table.nameOf(table.selected)}`}>
            {/* Its row may be out of sight by now. */}
            <Text size="sm" fw={550} maw={260} truncate="end" aria-hidden>
              {table.nameOf(table.selected)}
            </Text>
            {selection}
          </Group>
        )}
      </Group>
      <FilterPills columns={columns} view={view} />
      {list.error && list.items.length === 0 ? (
        <ProblemAlert error={list.error} title={`The ${nouns} cannot be shown`} onRetry={list.retry} />
      ) : (
        <>
          <Table {...table} label={title} empty={<Nothing none={none} nouns={nouns} view={view} />} />
          <Text size="xs" c="dimmed" className="number" role="status">
            {list.isLoading ? "Loading" : count(list.items.length, list.total, nouns)}
          </Text>
        </>
      )}
    </div>
  );
}

function Nothing({
  none,
  nouns,
  view,
}: {
  none: Props<unknown>["none"];
  nouns: string;
  view: Props<unknown>["view"];
}) {
  return (
    <Stack align="center" gap={6} py={56} px="md" ta="center">
      <Text fw={550}>{view.isNarrowed ? `No ${nouns} match` : none.title}</Text>
      <Text size="sm" c="dimmed" maw={440} component="div">
        {view.isNarrowed ? "Nothing fits the search and the filters together." : none.hint}
      </Text>
      {view.isNarrowed && (
        <Button size="xs" variant="default" mt="xs" onClick={view.clear}>
          Clear search and filters
        </Button>
      )}
    </Stack>
  );
}

function count(loaded: number, total: number | null, nouns: string): string {
  if ((total ?? loaded) === 1) return `1 ${singular(nouns)}`;
  const all = (total ?? loaded).toLocaleString("en");
  return loaded < (total ?? 0)
    ? `${loaded.toLocaleString("en")} of ${all} ${nouns}, scroll for more`
    : `${all} ${nouns}`;
}

function singular(nouns: string): string {
  return nouns.endsWith("ies") ? `${nouns.slice(0, -3)}y` : nouns.slice(0, -1);
}
