/** Form fields for a resource with a request and a limit: CPU, memory or disk. */
import { Input, SegmentedControl, SimpleGrid, Stack } from "@mantine/core";
import { AmountInput } from "../AmountInput";
import { useFinding } from "../findings";
import type { Unit } from "../quantities";
import { Note } from "../resolved";
import { Section } from "../Section";
import type { BoundedDraft, LimitMode } from "./drafts";

interface Props {
  title: string;
  path: string;
  units: Unit[];
  value: BoundedDraft;
  onChange: (value: BoundedDraft) => void;
}

const MODES = [
  { value: "unlimited", label: "Unlimited" },
  { value: "limit", label: "Limit" },
  { value: "policy", label: "Default" },
];

export function Bounded({ title, path, units, value, onChange }: Props) {
  const finding = useFinding();
  const mode = value.mode === "untouched" ? "unlimited" : value.mode;
  return (
    <Section title={title}>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
        <AmountInput
          label="Request"
          of={`${title} request`}
          units={units}
          value={value.request}
          onChange={(request) =>
            // While the limit is empty, its unit follows the request's unit.
            onChange({
              ...value,
              request,
              limit: value.limit.number ? value.limit : { number: "", unit: request.unit },
            })
          }
          path={`${path}.requests`}
          error={finding(`${path}.requests`) ?? finding(path, "exact")}
        />
        <Stack gap={4}>
          <Input.Label component="div">Limit</Input.Label>
          {value.mode === "untouched" && !value.request.number && (
            <Input.Description>Set a request first</Input.Description>
          )}
          <SegmentedControl
            size="xs"
            data={MODES}
            value={mode}
            aria-label={`Limit of ${title}`}
            style={{ alignSelf: "flex-start" }}
            onChange={(next) => onChange({ ...value, mode: next as LimitMode })}
          />
          {mode === "limit" && (
            <AmountInput
              label="At most"
              of={`${title} limit`}
              units={units}
              value={value.limit}
              onChange={(limit) => onChange({ ...value, limit })}
              path={`${path}.limits`}
            />
          )}
          {mode !== "limit" && <Note path={`${path}.limits`} />}
          {mode !== "limit" && finding(`${path}.limits`) && (
            <Input.Error>{finding(`${path}.limits`)}</Input.Error>
          )}
        </Stack>
      </SimpleGrid>
    </Section>
  );
}
