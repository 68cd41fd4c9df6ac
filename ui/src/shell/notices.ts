/** Short notices about completed actions. */
import { createStore } from "../api/stores";

export interface Notice {
  id: number;
  text: string;
}
const SHOWN_MS = 5000;

export const notices = createStore<Notice[]>([]);
let last = 0;

export function notify(text: string): void {
  const notice = { id: ++last, text };
  notices.set([...notices.get(), notice]);
  setTimeout(() => dismiss(notice.id), SHOWN_MS);
}

/** Returns mutation callbacks that, on success, show a notice and then call `next`. */
export function withNotice(text: string, next: () => void): { onSuccess: () => void } {
  return {
    onSuccess: () => {
      notify(text);
      next();
    },
  };
}

export function dismiss(id: number): void {
  notices.set(notices.get().filter((notice) => notice.id !== id));
}
