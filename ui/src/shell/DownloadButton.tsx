import { Button } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";

interface Props {
  text: string;
  /** The file name. */
  name: string;
  type?: string;
}

/** Downloads text as a file. */
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
