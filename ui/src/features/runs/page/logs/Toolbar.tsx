/** The log toolbar: search, stream filter, display options and download. */
import { ActionIcon, Button, Checkbox, Group, SegmentedControl, Text, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconChevronDown, IconChevronUp, IconDownload, IconSearch } from "@tabler/icons-react";
import { type KeyboardEvent, useRef } from "react";
import type { Run } from "../../../../api/runs";
import { AttemptPicker } from "../attempts";
import { downloadAddress } from "../requests";
import classes from "./Logs.module.css";
import type { Stream } from "./lines";
import type { LogFilter } from "./selection";

export interface DisplayOptions {
  hasTimes: boolean;
  isWrapped: boolean;
}

interface Props {
  run: Run;
  /** The selected attempt. If undefined, all attempts are shown. */
  attempt: number | undefined;
  filter: LogFilter;
  onFilter: (change: Partial<LogFilter>) => void;
  options: DisplayOptions;
  onOptions: (options: DisplayOptions) => void;
  hits: number;
  /** The index of the current match, or -1. */
  current: number;
  onGo: (step: 1 | -1) => void;
}

const STREAMS: { value: LogFilter["stream"]; label: string }[] = [
  { value: "all", label: "All" },
  { value: "stdout", label: "stdout" },
  { value: "stderr", label: "stderr" },
];

export function Toolbar({ run, attempt, filter, onFilter, options, onOptions, ...search }: Props) {
  return (
    <div className={classes.toolbar} role="toolbar" aria-label="Log">
      <AttemptPicker run={run} defaultLabel="All attempts" />
      <Search filter={filter} onFilter={onFilter} {...search} />
      <Checkbox
        size="xs"
        label="Only matching lines"
        disabled={!filter.search}
        checked={filter.isOnlyMatches}
        onChange={(event) => onFilter({ isOnlyMatches: event.currentTarget.checked })}
      />
      <SegmentedControl
        size="xs"
        aria-label="Stream"
        data={STREAMS}
        value={filter.stream}
        onChange={(stream) => onFilter({ stream: stream as Stream | "all" })}
      />
      <Checkbox
        size="xs"
        label="Timestamps"
        checked={options.hasTimes}
        onChange={(event) => onOptions({ ...options, hasTimes: event.currentTarget.checked })}
      />
      <Checkbox
        size="xs"
        label="Wrap lines"
        checked={options.isWrapped}
        onChange={(event) => onOptions({ ...options, isWrapped: event.currentTarget.checked })}
      />
      <Button
        component="a"
        className={classes.download}
        size="xs"
        variant="default"
        leftSection={<IconDownload size={15} />}
        href={`${downloadAddress(run.id, "logs")}?format=raw&${attempt ? `attempt=${attempt}` : "cursor=0"}`}
        download={`${run.function}-${run.id}.log`}
      >
        Download
      </Button>
    </div>
  );
}

function Search({
  filter,
  onFilter,
  hits,
  current,
  onGo,
}: Pick<Props, "filter" | "onFilter" | "hits" | "current" | "onGo">) {
  const input = useRef<HTMLInputElement>(null);
  useHotkeys([["/", () => input.current?.focus()]]);
  const handleKey = (event: KeyboardEvent) => {
    if (event.key === "Enter") onGo(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") onFilter({ search: "" });
  };
  return (
    <Group gap={4} wrap="nowrap" className={classes.search}>
      <TextInput
        ref={input}
        size="xs"
        type="search"
        className={classes.input}
        aria-label="Search the log"
        placeholder="Search (/)"
        value={filter.search}
        onChange={(event) => onFilter({ search: event.currentTarget.value })}
        onKeyDown={handleKey}
        leftSection={<IconSearch size={14} stroke={1.6} />}
      />
      <Text span size="xs" className="number" c="dimmed" role="status" aria-label="Matching lines" miw={64}>
        {filter.search && describeHits(hits, current)}
      </Text>
      <ActionIcon
        variant="default"
        size="md"
        aria-label="Previous match"
        disabled={hits === 0}
        onClick={() => onGo(-1)}
      >
        <IconChevronUp size={15} />
      </ActionIcon>
      <ActionIcon
        variant="default"
        size="md"
        aria-label="Next match"
        disabled={hits === 0}
        onClick={() => onGo(1)}
      >
        <IconChevronDown size={15} />
      </ActionIcon>
    </Group>
  );
}

function describeHits(hits: number, current: number): string {
  const total = hits.toLocaleString("en");
  if (current >= 0 && hits > 0) return `${(current + 1).toLocaleString("en")} of ${total}`;
  return hits === 0 ? "no matches" : `${total} ${hits === 1 ? "line" : "lines"}`;
}
