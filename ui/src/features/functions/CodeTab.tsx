/** Tab with the files of a function. */
import { Group, Stack, Text, UnstyledButton } from "@mantine/core";
import { useState } from "react";
import { showBytes } from "../../format/amounts";
import { CopyButton } from "../../shell/CopyButton";
import { DownloadButton } from "../../shell/DownloadButton";
import { Loading } from "../../shell/Loading";
import { Card } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import classes from "./Code.module.css";
import { CodeText } from "./CodeText";
import { sourceTypeOf } from "./drafts";
import { summarize } from "./kinds";
import { type Code, type FunctionRecord, useCode } from "./requests";

type CodeFile = Code["files"][number];

export function CodeTab({ item }: { item: FunctionRecord }) {
  const code = useCode(item);
  if (code.error && !code.data) {
    return (
      <ProblemAlert error={code.error} title="Could not load the code" onRetry={() => void code.refetch()} />
    );
  }
  if (code.data === undefined) return <Loading />;
  if (code.data === null) return <NoCode item={item} />;
  return <Files key={code.data.digest} code={code.data} main={mainOf(item)} />;
}

/** Shown for functions that consist only of an image or a command. */
function NoCode({ item }: { item: FunctionRecord }) {
  const isImage = sourceTypeOf(item) === "container";
  return (
    <Card title={isImage ? "Container image" : "Command"}>
      <Group justify="space-between" wrap="nowrap" align="flex-start">
        <Text ff="monospace" size="sm" style={{ overflowWrap: "anywhere" }}>
          {summarize(item) || "Empty"}
        </Text>
        <CopyButton text={summarize(item)} />
      </Group>
      <Text size="sm" c="dimmed">
        No code is stored for this function.
      </Text>
    </Card>
  );
}

/** Path of the file to show first: the source file or, in a folder, the handler's module. */
function mainOf({ content: { source = "", handler = "" } }: FunctionRecord): string {
  const [module, name] = handler.split(":");
  return name ? `${source}/${module}.py` : source;
}

function Files({ code, main }: { code: Code; main: string }) {
  const first = code.files.find((file) => file.path === main) ?? code.files[0];
  const [path, setPath] = useState(first?.path);
  const shown = code.files.find((file) => file.path === path);
  if (!shown) {
    return (
      <Text size="sm" c="dimmed">
        No files
      </Text>
    );
  }
  return (
    <div className={classes.code}>
      {code.files.length > 1 && (
        <nav aria-label="Files" className={classes.files}>
          {code.files.map((file) => (
            <UnstyledButton
              key={file.path}
              className={classes.file}
              aria-current={file.path === shown.path || undefined}
              onClick={() => setPath(file.path)}
            >
              {file.path}
            </UnstyledButton>
          ))}
        </nav>
      )}
      <FileView key={shown.path} file={shown} />
    </div>
  );
}

function FileView({ file }: { file: CodeFile }) {
  return (
    <Card>
      <Group justify="space-between">
        <Text size="sm" ff="monospace" style={{ overflowWrap: "anywhere" }}>
          {file.path}{" "}
          <Text span size="xs" c="dimmed" ff="text">
            {showBytes(file.size)}
          </Text>
        </Text>
        {file.text !== null && (
          <Group gap="xs">
            <CopyButton text={file.text} />
            <DownloadButton text={file.text} name={file.path.split("/").at(-1)!} />
          </Group>
        )}
      </Group>
      {file.text === null ? <NoPreview path={file.path} /> : <CodeText path={file.path} text={file.text} />}
    </Card>
  );
}

function NoPreview({ path }: { path: string }) {
  return (
    <Stack gap={4}>
      <Text size="sm">No preview available.</Text>
      <Text size="sm" c="dimmed">
        {/\.(pkl|pickle)$/.test(path)
          ? "This is a pickled Python function, for example from a notebook. Its source code is not stored."
          : "The file is not text or is too large."}
      </Text>
    </Stack>
  );
}
