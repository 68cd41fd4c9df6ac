/** What one can do with a log: search it, choose a stream, say how it looks, keep it. */
import { ActionIcon, Button, Checkbox, Group, SegmentedControl, Text, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconChevronDown, IconChevronUp, IconDownload, IconSearch } from "@tabler/icons-react";
import { type KeyboardEvent, useRef } from "react";
import type { Run } from "../../../../api/runs";
import { AttemptPicker } from "../attempts";
import { downloadAddress } from "../requests";
import classes from "./Logs.module.css";
import type { Stream } from "./lines";
import type { Wanted } from "./selecting";

export interface Look {
  hasTimes: boolean;
  isWrapped: boolean;
}

interface Props {
  run: Run;
  /** The try that is shown alone. */
  attempt: number | undefined;
  wanted: Wanted;
  onWant: (change: Partial<Wanted>) => void;
  look: Look;
  onLook: (look: Look) => void;
  hits: number;
  /** Which of the hits was gone to. */
  current: number;
  onGo: (step: 1 | -1) => void;
}

const STREAMS: { value: Wanted["stream"]; label: string }[] = [
  { value: "all", label: "All" },
  { value: "stdout", label: "stdout" },
  { value: "stderr", label: "stderr" },
];

export function Toolbar({ run, attempt, wanted, onWant, look, onLook, ...search }: Props) {
  return (
    <div className={classes.toolbar} role="toolbar" aria-label="Log">
      <AttemptPicker run={run} none="All attempts" />
      <Search wanted={wanted} onWant={onWant} {...search} />
      <Checkbox
        size="xs"
        label="Only lines that match"
        disabled={!wanted.search}
        checked={wanted.isOnlyMatches}
        onChange={(event) => onWant({ isOnlyMatches: event.currentTarget.checked })}
      />
      <SegmentedControl
        size="xs"
        aria-label="Stream"
        data={STREAMS}
        value={wanted.stream}
        onChange={(stream) => onWant({ stream: stream as Stream | "all" })}
      />
      <Checkbox
        size="xs"
        label="Times"
        checked={look.hasTimes}
        onChange={(event) => onLook({ ...look, hasTimes: event.currentTarget.checked })}
      />
      <Checkbox
        size="xs"
        label="Wrap"
        checked={look.isWrapped}
        onChange={(event) => onLook({ ...look, isWrapped: event.currentTarget.checked })}
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
  wanted,
  onWant,
  hits,
  current,
  onGo,
}: Pick<Props, "wanted" | "onWant" | "hits" | "current" | "onGo">) {
  const input = useRef<HTMLInputElement>(null);
  useHotkeys([["/", () => input.current?.focus()]]);
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter") onGo(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") onWant({ search: "" });
  };
  return (
    <Group gap={4} wrap="nowrap" className={classes.search}>
      <TextInput
        ref={input}
        size="xs"
        type="search"
        className={classes.input}
        aria-label="Search the log"
        placeholder="Search  ( / )"
        value={wanted.search}
        onChange={(event) => onWant({ search: event.currentTarget.value })}
        onKeyDown={press}
        leftSection={<IconSearch size={14} stroke={1.6} />}
      />
      <Text span size="xs" className="number" c="dimmed" role="status" aria-label="Lines that match" miw={64}>
        {wanted.search && tellHits(hits, current)}
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

function tellHits(hits: number, current: number): string {
  const all = hits.toLocaleString("en");
  if (current >= 0 && hits > 0) return `${(current + 1).toLocaleString("en")} of ${all}`;
  return hits === 0 ? "no match" : `${all} ${hits === 1 ? "line" : "lines"}`;
}
