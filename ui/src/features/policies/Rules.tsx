/** What is allowed at a path: one box a rule, with the fields that suit what stands there. */
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
import { isSilent, keyOf, NEW_RULE, type RuleDraft } from "./drafts";
import classes from "./Policy.module.css";
import { CHOICES, findPath, labelOf } from "./paths";

interface Props {
  rows: RuleDraft[];
  onChange: (rows: RuleDraft[]) => void;
}

export function Rules({ rows, onChange }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const count = useRef(rows.length);
  // After one was added it is typed into; after one was removed the keyboard stays here.
  useEffect(() => {
    if (rows.length === count.current) return;
    const target = rows.length > count.current ? '[role="group"]:last-of-type input' : "[data-add]";
    count.current = rows.length;
    box.current?.querySelector<HTMLElement>(target)?.focus();
  }, [rows.length]);
  return (
    <Stack gap="xs" ref={box}>
      {rows.map((rule, index) => (
        <Rule
          key={index}
          rule={rule}
          label={`Rule ${index + 1}`}
          at={`rules.${keyOf(rule, index)}`}
          change={(part) => onChange(rows.map((one, at) => (at === index ? { ...one, ...part } : one)))}
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
  /** "Rule 2", for whoever does not see which box a field is in. */
  label: string;
  at: string;
}

function Rule({ rule, change, onRemove, label, at }: RuleProps) {
  const finding = useFinding();
  const known = findPath(rule.path.trim());
  // What is already said stays in sight, also where it does not suit the path: the server says why not.
  const hasBounds = !known || known.kind === "amount" || rule.min !== "" || rule.max !== "";
  const hasOptions = known?.kind !== "section" || rule.options.length > 0;
  const flags = [finding(`${at}.required`), finding(`${at}.locked`)].filter(Boolean).join(" ");
  return (
    <Paper withBorder className={classes.rule} role="group" aria-label={label}>
      <div className={classes.fields} data-kind={hasBounds ? undefined : "word"}>
        <Autocomplete
          size="xs"
          label="Setting"
          aria-label={`${label}: setting`}
          placeholder="such as resources.gpu"
          data={CHOICES}
          value={rule.path}
          onChange={(path) => change({ path })}
          description={known && labelOf(rule.path.trim())}
          inputWrapperOrder={["label", "input", "description", "error"]}
          filter={search}
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
          error={finding(at, "exact")}
        />
        {hasBounds && (
          <>
            <Bound
              title="At least"
              label={label}
              example={known?.example}
              value={rule.min}
              onChange={(min) => change({ min })}
              error={finding(`${at}.min`)}
            />
            <Bound
              title="At most"
              label={label}
              example={known?.example}
              value={rule.max}
              onChange={(max) => change({ max })}
              error={finding(`${at}.max`)}
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
            error={finding(`${at}.options`)}
          />
        )}
        <Group className={classes.flags}>
          <Checkbox
            size="xs"
            label="Required: somebody must say it"
            checked={rule.required}
            onChange={(event) => change({ required: event.currentTarget.checked })}
          />
          <Checkbox
            size="xs"
            label="Locked: not for templates and users"
            checked={rule.locked}
            onChange={(event) => change({ locked: event.currentTarget.checked })}
          />
          {flags && (
            <Text size="xs" c="var(--mantine-color-error)">
              {flags}
            </Text>
          )}
          {rule.path.trim() && isSilent(rule) && (
            <Text size="xs" c="dimmed">
              Nothing is asked of it yet.
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

/** By the path, and by what people call it. */
const search: OptionsFilter = ({ options, search: text }) => {
  const wanted = text.trim().toLowerCase();
  const fits = (path: string) => `${path} ${labelOf(path)}`.toLowerCase().includes(wanted);
  return options.flatMap((group) => {
    if (!("group" in group)) return [];
    const items = group.items.filter((item) => fits(item.value));
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
      placeholder={example && `such as ${example.split(" ")[0]}`}
      value={value}
      onChange={onChange}
      error={error}
    />
  );
}
