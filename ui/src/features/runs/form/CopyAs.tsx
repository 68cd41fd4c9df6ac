/** Copies what the form says as Python, as a command, as YAML or as HTTP. Where pages may not copy, it is shown. */
import { Button, Code, Menu, Stack, Text } from "@mantine/core";
import { IconChevronDown, IconCopy } from "@tabler/icons-react";
import { useState } from "react";
import type { Request } from "../../../api/runs";
import { copyText } from "../../../shell/CopyButton";
import { Dialog } from "../../../shell/Dialog";
import { notify } from "../../../shell/notices";
import { type Copied, writeCommand, writeCurl, writePython, writeYaml } from "./copies";

const FORMS: { title: string; write: (project: string, request: Request) => Copied }[] = [
  { title: "Python", write: writePython },
  { title: "Command line", write: writeCommand },
  { title: "YAML, for fairlead preview", write: writeYaml },
  { title: "curl", write: writeCurl },
];

interface Props {
  project: string;
  /** Nothing as long as there is nothing to copy. */
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
            FORMS.map(({ title, write }) => {
              const copied = write(project, request);
              const cannot = "cannot" in copied ? copied.cannot : null;
              return (
                <Menu.Item
                  key={title}
                  disabled={cannot !== null}
                  onClick={() => "text" in copied && void copy(title, copied.text)}
                >
                  {title}
                  {cannot && (
                    <Text size="xs" maw={240}>
                      {cannot}
                    </Text>
                  )}
                </Menu.Item>
              );
            })}
        </Menu.Dropdown>
      </Menu>
      {shown !== null && (
        <Dialog title="This page may not copy here" size="lg" onClose={() => setShown(null)}>
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
