/** What may be done at all. A switch that is not said here is left to the scopes above. */
import { Input, SegmentedControl, TagsInput, Text } from "@mantine/core";
import { useFinding } from "../../forms/findings";
import type { PolicyDraft } from "./drafts";
import classes from "./Policy.module.css";
import { SWITCHES, type Switch } from "./switches";

const NOT_SAID = { value: "", label: "Not said" };
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
      {SWITCHES.map((one) => {
        if (one.choices) {
          const name = one.name as keyof Flags;
          return (
            <Row
              key={name}
              one={one}
              choices={one.choices}
              value={draft.flags[name]}
              onChoose={(value) => change({ flags: { ...draft.flags, [name]: value } })}
            />
          );
        }
        const name = one.name as keyof Lists;
        const set = (list: string[] | null) => change({ lists: { ...draft.lists, [name]: list } });
        return (
          <Row
            key={name}
            one={one}
            choices={[ONLY]}
            value={draft.lists[name] ? "only" : ""}
            onChoose={(value) => set(value ? [] : null)}
          >
            {draft.lists[name] && <Names one={one} names={draft.lists[name]} onChange={set} />}
          </Row>
        );
      })}
    </div>
  );
}

interface RowProps {
  one: Switch;
  choices: { value: string; label: string }[];
  value: string;
  onChoose: (value: string) => void;
  children?: React.ReactNode;
}

function Row({ one, choices, value, onChoose, children }: RowProps) {
  const finding = useFinding();
  const wrong = finding(`switches.${one.name}`, children ? "exact" : undefined);
  return (
    <div className={classes.switch}>
      <div>
        <Text size="sm" fw={550}>
          {one.title}
        </Text>
        <Text size="xs" c="dimmed">
          {one.about}
        </Text>
      </div>
      <SegmentedControl
        size="xs"
        aria-label={one.title}
        data={[NOT_SAID, ...choices]}
        value={value}
        onChange={onChoose}
        style={{ justifySelf: "start" }}
      />
      {children && <div className={classes.whole}>{children}</div>}
      {wrong && <Input.Error className={classes.whole}>{wrong}</Input.Error>}
    </div>
  );
}

interface NamesProps {
  one: Switch;
  names: string[];
  onChange: (names: string[]) => void;
}

function Names({ one, names, onChange }: NamesProps) {
  const finding = useFinding();
  return (
    <TagsInput
      size="xs"
      aria-label={one.title}
      placeholder={names.length === 0 ? `none at all, or some: ${one.example}` : undefined}
      value={names}
      onChange={onChange}
      error={finding(`switches.${one.name}`)}
    />
  );
}
