/** Form fields for the switches. A switch that is not set here is inherited. */
import { Input, SegmentedControl, TagsInput, Text } from "@mantine/core";
import { useFinding } from "../../forms/findings";
import type { PolicyDraft } from "./drafts";
import classes from "./Policy.module.css";
import { SWITCHES, type Switch } from "./switches";

const INHERIT = { value: "", label: "Inherit" };
const ONLY = { value: "only", label: "Only these" };

type Lists = PolicyDraft["lists"];
type Flags = PolicyDraft["flags"];

interface Props {
  draft: PolicyDraft;
  change: (part: Partial<PolicyDraft>) => void;
}

export function Switches({ draft, change }: Props) {
  return (
    <div>
      {SWITCHES.map((item) => {
        if (item.choices) {
          const name = item.name as keyof Flags;
          return (
            <Row
              key={name}
              item={item}
              choices={item.choices}
              value={draft.flags[name]}
              onChoose={(value) => change({ flags: { ...draft.flags, [name]: value } })}
            />
          );
        }
        const name = item.name as keyof Lists;
        const set = (list: string[] | null) => change({ lists: { ...draft.lists, [name]: list } });
        return (
          <Row
            key={name}
            item={item}
            choices={[ONLY]}
            value={draft.lists[name] ? "only" : ""}
            onChoose={(value) => set(value ? [] : null)}
          >
            {draft.lists[name] && <NameList item={item} names={draft.lists[name]} onChange={set} />}
          </Row>
        );
      })}
    </div>
  );
}

interface RowProps {
  item: Switch;
  choices: { value: string; label: string }[];
  value: string;
  onChoose: (value: string) => void;
  children?: React.ReactNode;
}

function Row({ item, choices, value, onChoose, children }: RowProps) {
  const finding = useFinding();
  const error = finding(`switches.${item.name}`, children ? "exact" : undefined);
  return (
    <div className={classes.switch}>
      <div>
        <Text size="sm" fw={550}>
          {item.title}
        </Text>
        <Text size="xs" c="dimmed">
          {item.about}
        </Text>
      </div>
      <SegmentedControl
        size="xs"
        aria-label={item.title}
        data={[INHERIT, ...choices]}
        value={value}
        onChange={onChoose}
        style={{ justifySelf: "start" }}
      />
      {children && <div className={classes.fullWidth}>{children}</div>}
      {error && <Input.Error className={classes.fullWidth}>{error}</Input.Error>}
    </div>
  );
}

interface NameListProps {
  item: Switch;
  names: string[];
  onChange: (names: string[]) => void;
}

function NameList({ item, names, onChange }: NameListProps) {
  const finding = useFinding();
  return (
    <TagsInput
      size="xs"
      aria-label={item.title}
      placeholder={names.length === 0 ? `None allowed. Add names, ${item.example}` : undefined}
      value={names}
      onChange={onChange}
      error={finding(`switches.${item.name}`)}
    />
  );
}
