/** What each form of a function is made of. */
import { Group, Select, Stack, Text } from "@mantine/core";
import { useFinding } from "../../forms/findings";
import { TextArea, TextField } from "../../forms/TextField";
import { DEFAULT_SOURCE, type Form, type FunctionDraft } from "./drafts";

/** The paths that have a field. */
export const FIELDS: Record<Form, string[]> = {
  python: ["kind", "text", "source", "handler", "image"],
  command: ["kind", "command", "image"],
  container: ["kind", "image", "command", "args", "port", "pull_policy"],
};
const EXAMPLE = `def main(rows: int = 1000):
    return {"rows": rows}`;
const POLICIES = [
  { value: "Always", label: "Always" },
  { value: "IfNotPresent", label: "If it is not there" },
  { value: "Never", label: "Never" },
];

interface Props {
  draft: FunctionDraft;
  onChange: (draft: FunctionDraft) => void;
  isNew: boolean;
}

export function FunctionFields({ draft, onChange, isNew }: Props) {
  const field = (key: Exclude<keyof FunctionDraft, "form" | "text">) => ({
    value: draft[key],
    onChange: (value: string) => onChange({ ...draft, [key]: value }),
  });
  if (draft.form === "container") return <ContainerFields field={field} />;
  if (draft.form === "command") {
    return (
      <>
        <TextField
          isCode
          label="Command"
          description="As in a terminal, such as python -m trainer --epochs 3"
          path="command"
          {...field("command")}
        />
        <ImageField {...field("image")} />
      </>
    );
  }
  return (
    <>
      <CodeField text={draft.text} onChange={(text) => onChange({ ...draft, text })} isFirst={!isNew} />
      <Group grow align="flex-start">
        <TextField
          isCode
          label="File name"
          description="What the code is kept as"
          placeholder={DEFAULT_SOURCE}
          disabled={draft.text === null}
          path="source"
          {...field("source")}
        />
        <TextField
          isCode
          label="Handler"
          description="The function that gets the inputs; empty runs the file"
          placeholder="main"
          path="handler"
          {...field("handler")}
        />
      </Group>
      <ImageField {...field("image")} />
    </>
  );
}

interface CodeProps {
  text: string | null;
  onChange: (text: string) => void;
  isFirst: boolean;
}

function CodeField({ text, onChange, isFirst }: CodeProps) {
  const finding = useFinding();
  if (text === null) {
    return (
      <Stack gap={2}>
        <Text size="sm" fw={500}>
          Code
        </Text>
        <Text size="sm" c="dimmed">
          It is not one file of text, so it stays as it is here. Change it where it was sent from.
        </Text>
        {finding("code") && (
          <Text size="sm" c="var(--mantine-color-error)" role="alert">
            {finding("code")}
          </Text>
        )}
      </Stack>
    );
  }
  return (
    <TextArea
      label="Code"
      data-autofocus={isFirst || undefined}
      placeholder={EXAMPLE}
      rows={12}
      resize="vertical"
      isCode
      wrap="off"
      value={text}
      onChange={onChange}
      path="text"
    />
  );
}

interface Bound {
  value: string;
  onChange: (value: string) => void;
}

function ImageField(bound: Bound) {
  return (
    <TextField
      isCode
      label="Image"
      description="Where it runs in a cluster; empty is the platform's own"
      placeholder="python:3.12-slim"
      path="image"
      {...bound}
    />
  );
}

type Key = "image" | "command" | "args" | "port" | "pullPolicy";

function ContainerFields({ field }: { field: (key: Key) => Bound }) {
  const finding = useFinding();
  const pulling = field("pullPolicy");
  return (
    <>
      <TextField
        isCode
        label="Image"
        placeholder="ghcr.io/team/trainer:1.4"
        path="image"
        {...field("image")}
      />
      <Group grow align="flex-start">
        <TextField
          isCode
          label="Command"
          description="Empty is the image's own"
          path="command"
          {...field("command")}
        />
        <TextField
          isCode
          label="Arguments"
          description="What follows the command"
          path="args"
          {...field("args")}
        />
      </Group>
      <Group grow align="flex-start">
        <TextField
          label="Port"
          description="Where it listens, for Inference and Workspace"
          inputMode="numeric"
          path="port"
          {...field("port")}
        />
        <Select
          label="Pull the image"
          description="When a node fetches it"
          placeholder="as the cluster has it"
          data={POLICIES}
          value={pulling.value || null}
          clearable
          onChange={(value) => pulling.onChange(value ?? "")}
          error={finding("pull_policy")}
        />
      </Group>
    </>
  );
}
