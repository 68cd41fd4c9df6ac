import { Button } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";

interface Props {
  text: string;
  /** What the file is called. */
  name: string;
  type?: string;
}

/** Keeps a text that the page has as a file. */
export function DownloadButton({ text, name, type = "text/plain" }: Props) {
  return (
    <Button
      component="a"
      size="compact-sm"
      variant="default"
      leftSection={<IconDownload size={14} />}
      href={`data:${type};charset=utf-8,${encodeURIComponent(text)}`}
      download={name}
    >
      Download
    </Button>
  );
}
