;; A whole task with the recipe of docs/lsp.md, as its user does it. Answers to prompts come from stdin.
(setq make-backup-files nil create-lockfiles nil eglot-sync-connect t eglot-connect-timeout 120)

(defun wait-for (words)
  (let ((end (+ (float-time) 120)))
    (while (not (string-search words (buffer-string)))
      (when (> (float-time) end) (error "%S never came: %s" words (buffer-string)))
      (accept-process-output nil 0.05)
      ;; In batch mode, no timer does what eglot does when its user is idle.
      (eglot--signal-textDocument/didChange))))

(setq project default-directory)
(find-file "calc.py")
(call-interactively 'eglot)
(oh-chat)
(insert "Fix it")
(oh-send)
(wait-for "Let me look.")
(goto-char (point-max))
(insert "Thanks")
(write-region "" nil (expand-file-name "typed" project))
(wait-for "*completed")
(write-region (buffer-string) nil (expand-file-name "chat.txt" project))
;; As `global-auto-revert-mode' does, by a timer too.
(with-current-buffer "calc.py" (revert-buffer t t))
(switch-to-buffer "calc.py")
(oh "review")
(goto-char (point-min))
(search-forward "a + b")
(setq last-nonmenu-event ?\r)           ; a key, not the mouse
(call-interactively 'eglot-code-actions)
(write-region (format "%S" (oh "review")) nil (expand-file-name "review.txt" project))
(eglot-shutdown (eglot-current-server))
