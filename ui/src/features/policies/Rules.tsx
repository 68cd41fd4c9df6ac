/** Form fields for rules: one box per rule, with the fields that suit its setting. */
import {
  ActionIcon,
  Autocomplete,
  Button,
  Checkbox,
  Group,
  type OptionsFilter,
  Paper,
  Stack,
  TagsInput,
  Text,
} from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useEffect, useRef } from "react";
import { useFinding } from "../../forms/findings";
import { TextField } from "../../forms/TextField";
import { isEmptyRule, keyOf, NEW_RULE, type RuleDraft } from "./drafts";
import classes from "./Policy.module.css";
import { CHOICES, findPath, labelOf } from "./paths";

interface Props {
  rows: RuleDraft[];
  onChange: (rows: RuleDraft[]) => void;
}

export function Rules({ rows, onChange }: Props) {
  const container = useRef<HTMLDivElement>(null);
  const previousCount = useRef(rows.length);
  // Focuses the new rule after one is added, and the Add button after one is removed.
  useEffect(() => {
    if (rows.length === previousCount.current) return;
    const target = rows.length > previousCount.current ? '[role="group"]:last-of-type input' : "[data-add]";
    previousCount.current = rows.length;
    container.current?.querySelector<HTMLElement>(target)?.focus();
  }, [rows.length]);
  return (
    <Stack gap="xs" ref={container}>
      {rows.map((rule, index) => (
        <Rule
          key={index}
          rule={rule}
          label={`Rule ${index + 1}`}
          errorPath={`rules.${keyOf(rule, index)}`}
          change={(part) => onChange(rows.map((row, at) => (at === index ? { ...row, ...part } : row)))}
          onRemove={() => onChange(rows.filter((_, at) => at !== index))}
        />
      ))}
      <Button
        data-add
        variant="subtle"
        size="compact-sm"
        leftSection={<IconPlus size={14} />}
        onClick={() => onChange([...rows, NEW_RULE])}
        style={{ alignSelf: "flex-start" }}
      >
        Add rule
      </Button>
    </Stack>
  );
}

interface RuleProps {
  rule: RuleDraft;
  change: (part: Partial<RuleDraft>) => void;
  onRemove: () => void;
  /** "Rule 2", for screen readers. */
  label: string;
  /** The rule's path in server errors. */
  errorPath: string;
}

function Rule({ rule, change, onRemove, label, errorPath }: RuleProps) {
  const finding = useFinding();
  const known = findPath(rule.path.trim());
  // Fields with a value stay visible even if they do not suit the setting, because the server reports the error.
  const hasBounds = !known || known.kind === "amount" || rule.min !== "" || rule.max !== "";
  const hasOptions = known?.kind !== "section" || rule.options.length > 0;
  const flagErrors = [finding(`${errorPath}.required`), finding(`${errorPath}.locked`)]
    .filter(Boolean)
    .join(" ");
  return (
    <Paper withBorder className={classes.rule} role="group" aria-label={label}>
      <div className={classes.fields} data-kind={hasBounds ? undefined : "text"}>
        <Autocomplete
          size="xs"
          label="Setting"
          aria-label={`${label}: setting`}
          placeholder="e.g. resources.gpu"
          data={CHOICES}
          value={rule.path}
          onChange={(path) => change({ path })}
          description={known && labelOf(rule.path.trim())}
          inputWrapperOrder={["label", "input", "description", "error"]}
          filter={filterPaths}
          maxDropdownHeight={300}
          comboboxProps={{ width: 300, position: "bottom-start" }}
          renderOption={({ option }) => (
            <div>
              <Text size="xs" ff="monospace">
                {option.value}
              </Text>
              <Text size="xs" c="dimmed">
                {labelOf(option.value)}
              </Text>
            </div>
          )}
          error={finding(errorPath, "exact")}
        />
        {hasBounds && (
          <>
            <Bound
              title="At least"
              label={label}
              example={known?.example}
              value={rule.min}
              onChange={(min) => change({ min })}
              error={finding(`${errorPath}.min`)}
            />
            <Bound
              title="At most"
              label={label}
              example={known?.example}
              value={rule.max}
              onChange={(max) => change({ max })}
              error={finding(`${errorPath}.max`)}
            />
          </>
        )}
        {hasOptions && (
          <TagsInput
            className={classes.options}
            size="xs"
            label="One of"
            aria-label={`${label}: one of`}
            placeholder={rule.options.length === 0 ? "any value" : undefined}
            data={known?.options ?? []}
            value={rule.options}
            onChange={(options) => change({ options })}
            error={finding(`${errorPath}.options`)}
          />
        )}
        <Group className={classes.flags}>
          <Checkbox
            size="xs"
            label="Required"
            checked={rule.required}
            onChange={(event) => change({ required: event.currentTarget.checked })}
          />
          <Checkbox
            size="xs"
            label="Locked (templates and users can't change it)"
            checked={rule.locked}
            onChange={(event) => change({ locked: event.currentTarget.checked })}
          />
          {flagErrors && (
            <Text size="xs" c="var(--mantine-color-error)">
              {flagErrors}
            </Text>
          )}
          {rule.path.trim() && isEmptyRule(rule) && (
            <Text size="xs" c="dimmed">
              This rule has no effect yet.
            </Text>
          )}
        </Group>
        <ActionIcon
          className={classes.remove}
          variant="subtle"
          color="gray"
          aria-label={`Remove ${label.toLowerCase()}`}
          onClick={onRemove}
        >
          <IconTrash size={16} stroke={1.6} />
        </ActionIcon>
      </div>
    </Paper>
  );
}

/** Matches the search text against paths and labels. */
const filterPaths: OptionsFilter = ({ options, search }) => {
  const query = search.trim().toLowerCase();
  const isMatch = (path: string) => `${path} ${labelOf(path)}`.toLowerCase().includes(query);
  return options.flatMap((group) => {
    if (!("group" in group)) return [];
    const items = group.items.filter((item) => isMatch(item.value));
    return items.length > 0 ? [{ ...group, items }] : [];
  });
};

interface BoundProps {
  title: string;
  label: string;
  example?: string;
  value: string;
  onChange: (value: string) => void;
  error?: string;
}

function Bound({ title, label, example, value, onChange, error }: BoundProps) {
  return (
    <TextField
      size="xs"
      label={title}
      aria-label={`${label}: ${title.toLowerCase()}`}
      placeholder={example && `e.g. ${example.split(" ")[0]}`}
      value={value}
      onChange={onChange}
      error={error}
    />
  );
}
