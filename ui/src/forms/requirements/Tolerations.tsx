import { Group, Select } from "@mantine/core";
import { useFinding } from "../findings";
import { Rows } from "../Rows";
import { Notes } from "../resolved";
import { TextField } from "../TextField";
import type { TolerationDraft } from "./rows";

const EFFECTS = [
  { value: "", label: "any effect" },
  ...["NoSchedule", "PreferNoSchedule", "NoExecute"].map((effect) => ({ value: effect, label: effect })),
];

interface Props {
  rows: TolerationDraft[];
  onChange: (rows: TolerationDraft[]) => void;
}

export function Tolerations({ rows, onChange }: Props) {
  const finding = useFinding();
  return (
    <Rows
      title="Tolerations"
      noun="toleration"
      description="Node taints to tolerate"
      rows={rows}
      onChange={onChange}
      notes={<Notes path="tolerations" />}
      error={finding("tolerations")}
      create={(): TolerationDraft => ({ key: "", operator: "Exists", value: "", effect: "", seconds: "" })}
      render={(row, change, label) => (
        <Group gap="xs" flex={1}>
          <TextField
            size="xs"
            flex="2 1 8rem"
            aria-label={`${label}: key`}
            placeholder="key"
            value={row.key}
            onChange={(key) => change({ key })}
          />
          <Select
            size="xs"
            w={96}
            aria-label={`${label}: operator`}
            data={["Exists", "Equal"]}
            value={row.operator}
            onChange={(operator) => change({ operator: operator as TolerationDraft["operator"] })}
          />
          {row.operator === "Equal" && (
            <TextField
              size="xs"
              flex="1 1 6rem"
              aria-label={`${label}: value`}
              placeholder="value"
              value={row.value}
              onChange={(value) => change({ value })}
            />
          )}
          <Select
            size="xs"
            w={150}
            aria-label={`${label}: effect`}
            data={EFFECTS}
            value={row.effect}
            onChange={(effect) => change({ effect: effect ?? "" })}
          />
          {row.effect === "NoExecute" && (
            <TextField
              size="xs"
              w={110}
              aria-label={`${label}: seconds`}
              placeholder="seconds"
              value={row.seconds}
              onChange={(seconds) => change({ seconds })}
            />
          )}
        </Group>
      )}
    />
  );
}
