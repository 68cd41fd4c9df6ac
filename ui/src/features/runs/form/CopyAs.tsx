/** Copies the request as Python, CLI, YAML or curl. If the clipboard is not accessible, shows the text in a dialog. */
import { Button, Code, Menu, Stack, Text } from "@mantine/core";
import { IconChevronDown, IconCopy } from "@tabler/icons-react";
import { useState } from "react";
import type { Request } from "../../../api/runs";
import { copyText } from "../../../shell/CopyButton";
import { Dialog } from "../../../shell/Dialog";
import { notify } from "../../../shell/notices";
import { type Snippet, writeCommand, writeCurl, writePython, writeYaml } from "./snippets";

const FORMATS: { title: string; write: (project: string, request: Request) => Snippet }[] = [
  { title: "Python", write: writePython },
  { title: "Command line", write: writeCommand },
  { title: "YAML (fairlead preview)", write: writeYaml },
  { title: "curl", write: writeCurl },
];

interface Props {
  project: string;
  /** Null while the draft is invalid. */
  request: Request | null;
}

export function CopyAs({ project, request }: Props) {
  const [shown, setShown] = useState<string | null>(null);
  const copy = async (title: string, text: string) => {
    if (await copyText(text)) notify(`Copied as ${title}`);
    else setShown(text);
  };
  return (
    <>
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <Button
            variant="default"
            disabled={request === null}
            leftSection={<IconCopy size={15} />}
            rightSection={<IconChevronDown size={14} />}
          >
            Copy as
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {request &&
            FORMATS.map(({ title, write }) => {
              const snippet = write(project, request);
              const unavailable = "unavailable" in snippet ? snippet.unavailable : null;
              return (
                <Menu.Item
                  key={title}
                  disabled={unavailable !== null}
                  onClick={() => "text" in snippet && void copy(title, snippet.text)}
                >
                  {title}
                  {unavailable && (
                    <Text size="xs" maw={240}>
                      {unavailable}
                    </Text>
                  )}
                </Menu.Item>
              );
            })}
        </Menu.Dropdown>
      </Menu>
      {shown !== null && (
        <Dialog title="Copy the text" size="lg" onClose={() => setShown(null)}>
          <Stack gap="xs">
            <Text size="sm">Select the text and press Ctrl+C.</Text>
            <Code block tabIndex={0}>
              {shown}
            </Code>
          </Stack>
        </Dialog>
      )}
    </>
  );
}
