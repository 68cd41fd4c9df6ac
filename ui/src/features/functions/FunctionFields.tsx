/** Form fields for each source type of a function. */
import { Group, Select, Stack, Text } from "@mantine/core";
import { useFinding } from "../../forms/findings";
import { TextArea, TextField } from "../../forms/TextField";
import { DEFAULT_SOURCE, type FunctionDraft, type SourceType } from "./drafts";

/** Paths of the errors that are shown at a field. */
export const FIELDS: Record<SourceType, string[]> = {
  python: ["kind", "text", "source", "handler", "image"],
  command: ["kind", "command", "image"],
  container: ["kind", "image", "command", "args", "port", "pull_policy"],
};
const EXAMPLE = `def main(rows: int = 1000):
    return {"rows": rows}`;
const PULL_POLICIES = [
  { value: "Always", label: "Always" },
  { value: "IfNotPresent", label: "If not present" },
  { value: "Never", label: "Never" },
];

interface Props {
  draft: FunctionDraft;
  onChange: (draft: FunctionDraft) => void;
  isNew: boolean;
}

export function FunctionFields({ draft, onChange, isNew }: Props) {
  const field = (key: Exclude<keyof FunctionDraft, "sourceType" | "text">) => ({
    value: draft[key],
    onChange: (value: string) => onChange({ ...draft, [key]: value }),
  });
  if (draft.sourceType === "container") return <ContainerFields field={field} />;
  if (draft.sourceType === "command") {
    return (
      <>
        <TextField
          isCode
          label="Command"
          description="Command line, e.g. python -m trainer --epochs 3"
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
          placeholder={DEFAULT_SOURCE}
          disabled={draft.text === null}
          path="source"
          {...field("source")}
        />
        <TextField
          isCode
          label="Handler"
          description="Function to call. Leave empty to run the file."
          // The description is below the input, so that both inputs in the row line up.
          inputWrapperOrder={["label", "input", "description", "error"]}
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
          This code is not a single text file, so it can't be edited here. Submit it again from its source.
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

interface FieldBinding {
  value: string;
  onChange: (value: string) => void;
}

function ImageField(binding: FieldBinding) {
  return (
    <TextField
      isCode
      label="Image"
      description="Container image. Leave empty for the platform default."
      placeholder="python:3.12-slim"
      path="image"
      {...binding}
    />
  );
}

type Key = "image" | "command" | "args" | "port" | "pullPolicy";

function ContainerFields({ field }: { field: (key: Key) => FieldBinding }) {
  const finding = useFinding();
  const pullPolicy = field("pullPolicy");
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
          description="Leave empty for the image's default"
          path="command"
          {...field("command")}
        />
        <TextField
          isCode
          label="Arguments"
          description="Appended to the command"
          path="args"
          {...field("args")}
        />
      </Group>
      <Group grow align="flex-start">
        <TextField
          label="Port"
          description="For Inference and Workspace runs"
          inputMode="numeric"
          path="port"
          {...field("port")}
        />
        <Select
          label="Image pull policy"
          description="When nodes pull the image"
          placeholder="Cluster default"
          data={PULL_POLICIES}
          value={pullPolicy.value || null}
          clearable
          onChange={(value) => pullPolicy.onChange(value ?? "")}
          error={finding("pull_policy")}
        />
      </Group>
    </>
  );
}
