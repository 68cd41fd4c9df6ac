/** Copies text. Shows a notice if the browser blocks copying, for example on a page without TLS. */
import { Button } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { notify } from "./notices";

const FEEDBACK_MS = 2000;

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function CopyButton({ text, title = "Copy" }: { text: string; title?: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), FEEDBACK_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    if (await copyText(text)) setCopied(true);
    else notify("The browser blocks copying. Select the text and press Ctrl+C.");
  };
  const CopyIcon = isCopied ? IconCheck : IconCopy;
  return (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<CopyIcon size={14} />}
      onClick={() => void copy()}
    >
      {isCopied ? "Copied" : title}
    </Button>
  );
}
