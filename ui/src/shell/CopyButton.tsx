/** Copies a text. Without TLS, or where the user said no, pages may not: then it says so. */
import { Button } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { notify } from "./notices";

const TOLD_MS = 2000;

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
    const timer = setTimeout(() => setCopied(false), TOLD_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    if (await copyText(text)) setCopied(true);
    else notify("This page may not copy here: select the text and press Ctrl+C");
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
