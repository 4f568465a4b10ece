/**
 * The standing phrases of mail servers, in the languages they speak: what the
 * rest of the reader compares with. All are folded (`MailText.folded`): lower
 * case, single spaces, plain apostrophes. A phrase is as long as it must be to
 * occur in nothing else.
 */

/** How a server begins to say that mail was not delivered. A person may quote one, and hardly opens a letter with it. */
export const failureStatements: ReadonlyArray<string> = [
  // English: the families of qmail, Exim, Postfix, sendmail, Exchange, Gmail, Domino, GroupWise, and what copies them
  "this is the qmail-send program", "i wasn't able to deliver your message", "i'm afraid i wasn't able",
  "i've given up. sorry it didn't work out",
  "this message was created automatically by", "this is an automatically generated delivery status",
  "automatically generated delivery status notification",
  "this is an automatically generated message", "this is an automatically generated mail",
  "a message that you sent could not be delivered", "a message that you sent has not yet been delivered",
  "message you sent could not be delivered", "message that you sent was undeliverable",
  "i'm sorry to have to inform you that your message could not be delivered",
  "i'm sorry to have to inform you that the message", "i am sorry to have to inform you",
  "this is the mail system at host", "this is the mail delivery system at", "this is the postfix program at host",
  "this is the mail delivery agent", "this is the mailer-daemon", "this is the mail server",
  "your message could not be delivered", "your message couldn't be delivered", "your message cannot be delivered",
  "your message can't be delivered", "your message can not be delivered",
  "your message was not delivered", "your message wasn't delivered", "your message has not been delivered",
  "your message hasn't been delivered", "your message is undeliverable", "message was undeliverable", "is undeliverable", "was not delivered", "not delivering to",
  "mail was undeliverable", "your message did not reach", "your message could not be sent",
  "your message has been rejected", "your message was rejected", "your message was blocked",
  "your message has been blocked", "your message has been returned",
  "your mail could not be delivered", "your mail message to the following address",
  "your email could not be delivered", "your e-mail could not be delivered", "your e-mail was not delivered",
  "your email was not delivered", "your email was rejected", "your e-mail was rejected",
  "your mail was not delivered", "could not deliver your message", "couldn't deliver your message",
  "unable to deliver your message", "unable to deliver the message", "unable to deliver message",
  "unable to deliver mail",
  "not able to deliver your message", "cannot deliver your message", "failed to deliver your message",
  "failed to deliver to", "failed to deliver message", "could not deliver message", "could not deliver the message",
  "could not be delivered to", "couldn't be delivered to", "cannot be delivered to", "can't be delivered to",
  "can not be delivered to", "was not delivered to", "wasn't delivered to", "not be delivered to one or more",
  "could not be delivered for", "could not be delivered because", "was undeliverable to", "is undeliverable to",
  "message could not be delivered", "message couldn't be delivered", "message cannot be delivered",
  "message was not delivered", "message has not been delivered", "mail could not be delivered",
  "did not reach the following recipient", "did not reach some or all", "delivery has failed to these recipients",
  "delivery to the following recipient", "delivery to these recipients",
  "delivery to the following destinations failed", "delivery failed to the following",
  "delivery failed for the following", "delivery attempts to the following", "delivery to the following address",
  "delivery of the following message failed", "delivery of your message to",
  "following recipient(s) could not be reached", "recipients could not be reached", "recipient could not be reached",
  "following recipient(s) cannot be reached",
  "the following addresses had permanent", "the following addresses had transient",
  "the following addresses had delivery problems", "the following addresses had fatal errors",
  "the following addresses had successful", "the following addresses have delivery notifications",
  "the following address failed", "the following address(es) failed", "the following addresses failed",
  "failed addresses follow", "the following recipients failed", "the following recipient(s) failed",
  "permanent fatal delivery errors", "permanent fatal errors", "fatal delivery errors", "transient non-fatal errors",
  "transcript of session follows", "transcript of the session follows", "session transcript follows",
  "message could not be delivered to some recipients", "message has failed delivery",
  "has failed delivery to one or more", "undeliverable mail", "undelivered message", "undeliverable message",
  "undeliverable to", "returned mail:", "returned to sender", "is being returned to you", "has been returned to you",
  "returned to you for the following", "the reason of the delivery failure was", "error sending message [",
  "delivery failure notice", "mail delivery failed", "mail delivery failure", "non-delivery report",
  "nondelivery report", "delivery status notification", "delivery failure", "delivery error",
  "permanent delivery failure", "non-delivered information", "no valid recipients were found", "message log follows",
  "an error has occurred while attempting to deliver", "errors occurred while delivering",
  "error occurred while delivering", "error delivering", "we were unable to deliver", "we were not able to deliver",
  "we had trouble delivering your message", "we couldn't deliver", "we could not deliver",
  "unable to send your message", "unable to relay", "rejected by a remote mail server",
  "recipients was rejected by a remote", "was rejected by the recipient", "wasn't found at", "address not found",
  "user unknown", "unknown user", "no such user", "mailbox is full", "message blocked", "message not delivered",
  "message bounced", "recipient not found", "undeliverable address", "failed recipients", "invalid final delivery",
  "was aborted", "not able to deliver", "did not receive your message", "has been returned because",
  "was refused by", "recipients were affected", "recipients are affected", "is not accepting mail",
  "could not be sent to",
  "this report relates to a message you sent", "this is a delivery status notification",
  "delivery report for your message", "rejected recipient", "the attached message had",
  "the attached message could not", "user mailbox exceeds allowed size", "the e-mail system was unable to deliver",
  "you do not have permission to send", "you do not have permission to post", "you may not have permission to post",
  "does not have a yahoo", "doesn't have a yahoo", "your e-mail message could not", "message delivery failed",
  "delivery to one or more recipients failed", "the mail system at", "message from yahoo", "mail transfer agent",
  "not listed in domino directory", "not listed in public name", "no route found to domain",
  "the message cannot be delivered", "was automatically rejected", "were not delivered", "deliver the message to",
  "message was identified as", "message violates", "couldn't be sent", "was unable to deliver", "not been delivered",
  "did not receive a copy", "delivery failed", "delivery has failed", "were unable to deliver", "undeliverable:",
  // German
  "konnte nicht zugestellt werden", "konnte nicht ausgeliefert werden", "nicht zugestellt werden",
  "konnte nicht übermittelt werden", "unzustellbar", "zustellung der nachricht", "zustellung fehlgeschlagen",
  "nicht erreicht", "wurde nicht zugestellt", "nicht übermittelt werden", "unzustellbarkeit",
  "fehler bei der zustellung", "fehler bei der nachrichtenzustellung", "zustellversuch",
  // French
  "n'a pas pu être délivré", "n'a pas pu être remis", "n'a pas pu être distribué", "n'a pas pu être livré",
  "n'a pas pu être envoyé", "n'a pas été remis", "n'a pas été délivré", "n'a pas été distribué",
  "ne peut pas être délivré", "ne peut être délivré", "ne peut être remis", "échec de la remise", "échec de remise",
  "échec de la distribution", "échec de livraison", "impossible de remettre", "impossible de délivrer",
  "n'a pu être", "non remis", "pas pu être acheminé", "la remise a échoué", "ne parvient pas à remettre",
  // Spanish, Portuguese
  "no se pudo entregar", "no ha podido entregarse", "no ha podido ser entregado", "no pudo ser entregado",
  "no pudo entregarse", "no se ha podido entregar", "no se puede entregar", "no fue entregado", "no se entregó",
  "error en la entrega", "error de entrega", "no ha llegado a", "no entregado", "no entregable",
  "no se pudieron entregar",
  "não pôde ser entregue", "não pode ser entregue", "não foi entregue", "não foi possível entregar",
  "não foi possível enviar", "falha na entrega", "falha ao entregar", "a entrega falhou", "não conseguiu entregar",
  // Italian, Dutch
  "non è stato possibile recapitare", "non è stato recapitato", "impossibile recapitare",
  "non può essere recapitato", "non ha potuto essere recapitato", "mancato recapito", "recapito non riuscito",
  "non è stato consegnato", "impossibile consegnare", "non è stato possibile consegnare", "recapito fallito",
  "kon niet worden bezorgd", "kan niet worden bezorgd", "niet worden afgeleverd", "kon niet afgeleverd",
  "kon niet bezorgd", "niet bezorgd", "is niet afgeleverd", "bezorging is mislukt", "bezorgen is mislukt",
  "aflevering mislukt", "onbestelbaar",
  // Nordic, Polish, Czech, Hungarian, Turkish
  "kunde inte levereras", "kunne ikke leveres", "ei voitu toimittaa", "kunne ikke afleveres",
  "nie została dostarczona", "nie mogła zostać dostarczona", "nie może zostać dostarczona", "nie można dostarczyć",
  "nie udało się dostarczyć", "nie mogła być dostarczona", "nie dostarczono", "niedoręczon", "niedostarczon",
  "nie powiodło się dostarczenie", "nie można było dostarczyć", "nie mogło zostać dostarczone",
  "nelze doručit", "nebylo možné doručit", "nebyla doručena", "se nepodařilo doručit", "nem kézbesíthető",
  "nem sikerült kézbesíteni", "teslim edilemedi", "iletilemedi",
  // Russian, Ukrainian
  "не было доставлено", "не может быть доставлено", "не удалось доставить", "не доставлено", "невозможно доставить",
  "не смогли доставить", "не могло быть доставлено", "не удалось отправить", "недоставленн", "не вдалося доставити",
  "не было отправлено", "ошибка доставки",
  // Japanese, Chinese, Korean
  "配信できませんでした", "送信できませんでした", "届けることができませんでした", "配達できませんでした", "お届けできませんでした", "配信不能", "配送できませんでした", "送信することができませんでした",
  "配信に失敗", "送信に失敗", "宛先不明", "エラーメール", "送達できませんでした", "不達",
  "无法送达", "被退回", "退信", "无法投递", "投递失败", "发送失败", "未能送达", "无法发送到", "未送达", "無法傳送", "無法投遞", "退件", "投遞失敗", "无法传递",
  "전달되지 않았", "전송되지 못했", "배달되지 않", "반송", "보내지 못했", "전송하지 못했", "전달할 수 없"
]

/** It is still being tried. */
export const delayStatements: ReadonlyArray<string> = [
  "will be retried", "will retry", "will keep trying", "will continue to try", "will continue trying",
  "will continue to attempt", "will try again", "will be tried again", "will be attempted", "keep trying until",
  "still being retried", "still trying to deliver", "still undelivered", "has not yet been delivered",
  "have not yet been delivered", "not yet been delivered", "could not yet be delivered", "couldn't yet be delivered",
  "could not be delivered yet", "has been delayed", "have been delayed", "is delayed", "was delayed",
  "been temporarily delayed", "delivery is delayed", "message delayed", "delivery delayed",
  "you do not need to resend", "do not need to resend", "no need to resend", "not need to resend",
  "no action is required on your part", "this is a warning message only", "this is only a warning", "warning only",
  "delivery attempts will continue", "attempts will continue", "attempts to deliver the message will continue",
  "delivery will continue to be attempted", "will be made to deliver", "has been deferred", "has been postponed",
  "advisory-only", "was deferred", "has been queued", "still in the queue", "still on the queue",
  "remains in the queue", "transient non-fatal errors", "temporarily deferred and",
  "delivery to the following recipients has been delayed", "incomplete and will be", "we'll keep trying",
  "we will keep trying", "gmail will retry", "not delivered yet", "try to deliver it for",
  "continue trying to deliver", "continue delivery attempts", "further attempts will be made", "retry for another",
  "is still undelivered", "delivery incomplete", "delivery is incomplete", "delayed 2", "we're still trying",
  "temporary problem delivering",
  "wird weiterhin versucht", "weitere zustellversuche", "zustellung verzögert", "verzögert sich",
  "noch nicht zugestellt", "wird erneut versucht", "werden weiterhin", "ist verzögert", "wurde verzögert",
  "n'a pas encore été", "n'a pas encore pu", "est retardé", "a été retardé", "remise différée",
  "de nouvelles tentatives", "tentatives de remise vont se poursuivre", "sera retenté", "est retardée",
  "a été différé",
  "se ha retrasado", "se seguirá intentando", "aún no se ha entregado", "está demorado", "se retrasó",
  "se volverá a intentar", "todavía no se ha", "se continuará intentando", "retrasado la entrega",
  "foi adiada", "está atrasada", "continuaremos tentando", "ainda não foi entregue", "novas tentativas",
  "está atrasado", "foi atrasada",
  "è stata ritardata", "è in ritardo", "non è ancora stato", "continuerà a tentare", "verrà ritentato",
  "ulteriori tentativi", "è stato ritardato",
  "is vertraagd", "nog niet bezorgd", "nog niet afgeleverd", "opnieuw geprobeerd", "blijft proberen",
  "nie została jeszcze dostarczona", "opóźnion", "kolejne próby", "będzie ponawian", "ponowna próba",
  "ещё не доставлено", "еще не доставлено", "задержива", "задержана", "будут продолжены", "будет повторен",
  "доставка отложена", "попытки доставки продолж",
  "遅延", "再送を試み", "まだ配信", "再送信を試み", "延迟", "将继续尝试", "系统将继续", "稍后重试", "延遲", "지연"
]

/** It was tried for long, and is not any more: stronger than any delay. */
export const finalStatements: ReadonlyArray<string> = [
  "giving up", "given up", "gave up", "i'm not going to try again", "not going to try", "will not be retried",
  "will not be attempted", "no further attempts", "no further delivery attempts", "will not try again",
  "won't try again", "retry timeout exceeded", "retry time not reached for any host after a long failure",
  "message expired", "has expired", "message will be deleted from queue", "removed from the mail queue",
  "has been removed from the queue", "been in the queue too long", "too long in the queue",
  "delivery failed permanently", "failed permanently", "permanent error", "permanent failure", "permanent fatal",
  "permanent delivery failure", "could not be delivered for 5 days", "delivery has failed",
  "the message has been returned", "stopped trying", "exceeded the maximum", "delivery time expired",
  "maximum retries", "unable to deliver this message after multiple attempts", "was unable to be delivered",
  "has been bounced", "wurde aufgegeben", "wird nicht mehr versucht", "endgültig", "n'y aura pas d'autre",
  "abandonn", "définitivement", "no se volverá a intentar", "permanentemente", "definitiv", "trwały błąd",
  "прекращены", "больше не будет"
]

/** Mail reached somebody, and says so. */
export const deliveredStatements: ReadonlyArray<string> = [
  "was successfully delivered", "successfully delivered to", "has been successfully delivered",
  "was successfully relayed", "has been delivered to the following", "successfully relayed to",
  "was delivered to the following", "been successfully relayed", "the following addresses had successful delivery",
  "erfolgreich zugestellt", "delivery confirmed to", "your message was delivered to"
]

/** Of a subject, that it is a report's, in a word of the trade. */
export const strongSubjects: ReadonlyArray<string> = [
  "delivery status notification", "undelivered mail returned", "mail delivery failed", "mail delivery failure",
  "mail delivery system", "returned mail", "failure notice", "undeliverable:", "undeliverable mail",
  "undeliverable message", "delivery failure", "undelivered mail", "mail system error", "mail delivery problem",
  "mail could not be delivered", "non-delivery", "nondelivery", "message status - undeliverable",
  "delivery notification", "delivery report", "mail failure", "nondeliverable mail", "delivery error",
  "could not send message for past", "warning: could not send", "warning: message", "mail delivery status",
  "message delivery failure", "message undeliverable", "mail undeliverable", "permanent delivery failure",
  "mail delivery notification", "mailer daemon", "mail not delivered", "message not delivered",
  "email not delivered", "your message could not be delivered", "your mail could not be delivered",
  "delivery delayed", "message delayed", "delayed mail", "delayed delivery", "mail delivery delayed",
  "mail returned", "returned to sender", "returned email", "message could not be delivered", "unable to deliver",
  "notification d'état de remise", "delivery failed", "undelivered message", "unzustellbar", "mail delivery warning",
  "warning: could not deliver", "message send failure", "(delay)", "(failure)", "(failed)", "mailsystem",
  "rejected mail", "mail rejected", "delivery has failed", "undeliverable", "mail delivery error",
  "smtp delivery failure", "e-mail delivery failure", "email delivery failure", "delivery unsuccessful",
  "bounced message", "bounce message", "mail bounced", "message bounced", "message blocked", "message rejected",
  "address not found", "user unknown", "transient delivery failure", "mail delivery deferred", "message status",
  "mail failed", "[bounce]", "fail delivery", "returning to sender", "returning message to sender",
  "postmaster notify", "notification of failed", "failed delivery", "delivery problem", "problem delivering",
  "not delivered", "could not be sent", "could not be delivered", "error sending", "considered unsolicited",
  "banned contents", "delivery notice",
  "nicht zugestellt", "zustellung fehlgeschlagen", "zustellfehler", "nicht zustellbar", "zustellung verzögert",
  "unzustellbarkeit", "übermittlung fehlgeschlagen", "fehler bei der zustellung",
  "non remis", "échec de la remise", "échec de remise", "non délivré", "échec de livraison", "notification d'échec",
  "non distribué", "retour de mail", "message non", "avis de non-remise", "échec d'envoi", "remise retardée",
  "impossible de remettre",
  "no entregado", "no se puede entregar", "no se pudo entregar", "no entregable", "error de entrega",
  "notificación de estado de entrega", "correo devuelto", "mensaje devuelto", "entrega fallida",
  "no se ha podido entregar", "retrasad",
  "não entregue", "não pôde ser entregue", "falha na entrega", "falha de entrega",
  "notificação de status de entrega", "não foi entregue", "notificação de falha", "mensagem devolvida",
  "não é possível entregar",
  "non recapitabile", "mancato recapito", "mancata consegna", "non recapitato", "impossibile recapitare",
  "errore di consegna", "notifica sullo stato di recapito", "avviso di mancata consegna",
  "onbestelbaar", "niet bezorgd", "niet afgeleverd", "bezorging mislukt", "aflevering mislukt", "onbezorgbaar",
  "niedostarczalne", "niedostarczona", "niedoręczona", "nie można dostarczyć", "nie dostarczono", "zwrot",
  "niedostarczono", "nie dostarczona",
  "не доставлено", "недоставленн", "не удалось доставить", "ошибка доставки", "невозможно доставить",
  "уведомление о доставке", "не может быть доставлено", "возврат", "доставка отложена", "сообщение не",
  "kan inte levereras", "olevererbart", "kan ikke leveres", "nelze doručit", "nedoručitelné", "kézbesítés",
  "teslim edilemedi",
  "配信不能", "配信エラー", "エラー通知", "配信できません", "送信エラー", "宛先不明", "未配信", "退信", "退回", "投递失败", "无法送达", "未送达", "无法传递", "退件",
  "無法傳遞", "未傳遞", "전송 실패", "반송", "배달 실패"
]

/** Of a subject, that an absent or new person answers by machine. */
export const absenceSubjects: ReadonlyArray<string> = [
  "out of office", "out of the office", "out-of-office", "auto reply", "auto-reply", "autoreply", "automatic reply",
  "auto response", "auto-response", "autoresponse", "autoresponder", "automated reply", "automatic response",
  "automated response", "on vacation", "vacation", "away from", "on leave", "ooo:", "on holiday", "abwesenheit",
  "automatische antwort", "abwesend", "nicht im büro", "urlaub", "réponse automatique", "absence du bureau",
  "absent du bureau", "message d'absence", "absence", "respuesta automática", "fuera de la oficina",
  "fuera de oficina", "resposta automática", "fora do escritório", "ausência", "risposta automatica", "fuori sede",
  "fuori ufficio", "automatisch antwoord", "afwezig", "afwezigheid", "autosvar", "automatiskt svar",
  "automatisk svar", "frånvaro", "poissaolo", "automaattinen vastaus", "automatyczna odpowiedź",
  "odpowiedź automatyczna", "nieobecn", "poza biurem", "автоматический ответ", "автоответ", "вне офиса", "отсутств",
  "automatická odpověď", "automatikus válasz", "otomatik yanıt", "自動返信", "自動応答", "不在", "自动回复", "自動回覆", "外出", "자동 회신",
  "부재중", "automatic-reply", "left the company", "no longer with", "no longer works"
]

/** Of a subject, that a scanner found something. */
export const scannerSubjects: ReadonlyArray<string> = [
  "virus", "malware", "infected", "viren", "schadsoftware", "wirus", "вирус", "ウイルス", "ウィルス", "病毒", "바이러스"
]

/** Said by what holds mail back, asks a question, or tells somebody else: whatever else it says, no bounce of ours. */
export const otherStatements: ReadonlyArray<string> = [
  "awaiting moderator approval", "awaits moderator approval", "is being held until", "held for moderation",
  "held for approval", "being held for", "please confirm that you", "confirm your message", "to confirm your",
  "prove that you are", "verify that you are", "to verify your", "complete the challenge", "one-time verification",
  "to release your message", "add you to my", "approved senders", "quarantine summary", "quarantine digest",
  "spam quarantine", "messages in quarantine", "held in quarantine for you", "a message addressed to you",
  "a message sent to you", "sent to you was", "message addressed to you", "an email addressed to you",
  "an email sent to you", "sent to you contained", "intended for you", "transcript of session follows. out:",
  "your membership in the mailing list", "have been bouncing", "seems to have been bouncing",
  "bounce action notification", "your subscription", "to unsubscribe", "unsubscribe from", "subscription to",
  "i am out of", "i'm out of", "i am currently out", "i'm currently out", "i will be out", "i'm on vacation",
  "i am on vacation", "i am on holiday", "i am on leave", "i'm away", "i am away", "out of the office",
  "ich bin derzeit nicht", "bin ich nicht im büro", "je suis absent", "je suis actuellement absent", "estoy fuera",
  "estaré fuera", "sono fuori", "ik ben afwezig", "tracking number", "your parcel", "your package", "your shipment",
  "your order", "we have received your", "we received your", "has been received and", "thank you for contacting",
  "thanks for contacting", "thank you for your message", "thank you for your email", "thanks for your message",
  "case number", "ticket number", "your ticket", "was intercepted", "sendungsnummer", "votre colis"
]

/** Reasons in words that will not pass. */
export const permanentReasons: ReadonlyArray<string> = [
  "user unknown", "unknown user", "addresses were unknown", "address was unknown", "no such user",
  "no such recipient", "no such mailbox", "no such address", "no such person", "no such account", "no such email",
  "no such local", "no mailbox here", "no mailbox by that name", "mailbox not found", "mailbox unavailable",
  "mailbox is disabled", "mailbox disabled", "mailbox is inactive", "mailbox does not exist",
  "mailbox doesn't exist", "mailbox has been", "account disabled", "account is disabled",
  "account has been disabled", "account that you tried to reach", "account that you tried to reach does not exist",
  "account is inactive", "account inactive", "account closed", "account has been suspended",
  "account does not exist", "account not found", "account has been deleted", "account is not", "user not found",
  "this user doesn't have a", "this user does not have a", "user does not exist", "user doesn't exist",
  "user is unknown", "user has moved", "user not known", "is not known", "not a valid user", "not a known user", "invalid user",
  "invalid recipient", "invalid mailbox", "invalid address", "invalid email", "illegal user", "bad address",
  "bad destination", "recipient unknown", "unknown recipient", "unknown address", "unknown account", "unknown local",
  "unknown mailbox", "unknown domain", "unknown host", "unknown or illegal", "recipient not found",
  "recipient not known", "recipient address rejected", "recipient rejected", "recipient does not exist",
  "recipient doesn't exist", "recipient name is not recognized", "recipient is not local",
  "recipients does not exist", "address rejected", "address not found", "address does not exist",
  "address doesn't exist", "address is invalid", "address unknown", "address no longer",
  "address you sent your message to wasn't found", "email address couldn't be found", "couldn't be found",
  "could not be found", "wasn't found", "was not found at", "does not exist", "doesn't exist",
  "does not have an account", "not listed in", "not our customer", "no longer valid", "no longer exists",
  "no longer active", "no longer in use", "no longer available", "not exist", "host unknown", "host not found",
  "not appear to be registered", "domain is not registered", "automatically rejected",
  "domain not found", "domain does not exist", "no such domain", "no such host", "unrouteable", "unroutable",
  "couldn't find any host", "couldn't find a mail exchanger", "nxdomain", "non-existent", "nonexistent",
  "name or service not known", "no mx", "null mx", "undeliverable address", "delivery not authorized",
  "relaying denied", "relay access denied", "unable to relay", "relay not permitted", "access denied",
  "rejected by policy", "message rejected", "message size exceeds", "message is too large", "message too large",
  "message too big", "exceeds size limit", "exceeds the maximum", "considered spam", "looks like spam", "as spam",
  "spam message rejected", "blocked by", "blacklisted", "block list", "blocklist", "contains a virus",
  "was infected", "content rejected", "not permitted", "permission to post", "permission to send",
  "only subscribers", "not a member", "too many hops", "mail loop", "routing loop", "(user not found)",
  "no valid recipients", "is not a valid", "isn't a valid", "prohibited", "deactivated",
  "has been disabled", "permanent failure",
  "empfänger unbekannt", "unbekannter benutzer", "unbekannter empfänger", "existiert nicht", "nicht gefunden",
  "unbekannt", "ungültig", "nicht bekannt",
  "n'existe pas", "utilisateur inconnu", "adresse inconnue", "destinataire inconnu", "inconnu", "introuvable",
  "invalide", "n'a pas été trouvé", "est désactivé",
  "ha expirado por falta de uso", "no existe", "usuario desconocido", "destinatario desconocido", "no se encontró",
  "no se ha encontrado", "desconocid", "no válid", "inexistente",
  "não existe", "usuário desconhecido", "destinatário desconhecido", "desconhecid", "não foi encontrad",
  "não encontrad", "inválid", "utilizador desconhecido",
  "non esiste", "utente sconosciuto", "sconosciut", "inesistente", "non trovato", "non è stato trovato", "non valid",
  "bestaat niet", "onbekende gebruiker", "onbekend", "niet gevonden", "ongeldig",
  "nie istnieje", "nieznany", "nie znaleziono", "nieprawidłow", "nie ma takiego",
  "не существует", "не найден", "неизвестн", "неверн", "нет такого", "заблокирован", "отключен",
  "存在しない", "存在しません", "見つかりません", "見つかりませんでした", "該当するアドレス", "不存在", "未找到", "找不到", "无效", "不正确", "無效", "存在しなかった",
  "使われておりません", "존재하지 않", "찾을 수 없"
]

/** A full mailbox: it passes, whatever class its code has. */
export const quotaReasons: ReadonlyArray<string> = [
  "over quota", "overquota", "quota usage exceeded", "agotado", "mailbox size limit exceeded",
  "exceeding their quota", "exceeding quota", "exceeding the quota", "exceeding its quota", "quota exceeded",
  "exceeded quota", "exceeds quota", "exceeded storage", "over the quota", "over its quota",
  "quota has been exceeded", "exceeded its quota", "exceeded his quota", "exceeded their quota", "out of quota",
  "quota full", "disk quota", "quota violation", "quota limit", "over-quota", "storage quota", "mailbox quota",
  "mailbox is full", "mailbox full", "mailbox currently full", "mailbox has exceeded", "mail box full",
  "mailbox size limit", "inbox is full", "inbox full", "inbox is out of storage", "out of storage space",
  "mail box is full", "mailfolder is full", "folder is full", "account is full", "insufficient storage",
  "insufficient disk", "not enough storage", "mailbox exceeds allowed size", "mailbox exceeded", "over its storage",
  "recipient's mailbox exceeded", "has exceeded the max", "full mailbox", "maildir over", "over disk",
  "storage limit", "mailbox over", "mailbox space", "account is over",
  "postfach ist voll", "postfach voll", "speicherplatz überschritten", "kontingent", "boîte aux lettres pleine",
  "boîte pleine", "quota dépassé", "est pleine", "buzón lleno", "buzón está lleno", "cuota excedida",
  "superado la cuota", "caixa cheia", "caixa de correio cheia", "está cheia", "cota excedida", "casella piena",
  "casella è piena", "casella di posta è piena", "quota superata", "postbus is vol", "mailbox is vol",
  "postvak is vol", "skrzynka jest pełna", "skrzynka pełna", "przepełnion", "przekroczony limit", "переполнен",
  "ящик полон", "превышена квота", "容量を超え", "容量超過", "いっぱい", "已满", "容量不足", "空间不足", "超过限额", "已滿", "용량 초과"
]

/** Reasons in words that will pass, even where the same line says that something was rejected. */
export const passingReasons: ReadonlyArray<string> = [
  "greylist", "graylist", "grey-list", "try again later", "try later", "please retry", "temporarily"
]

/** Reasons in words that may pass. */
export const transientReasons: ReadonlyArray<string> = [
  "try again later", "try later", "please retry", "temporarily", "temporary", "greylist", "graylist", "grey-list",
  "timed out", "timeout", "time out", "connection refused", "connection reset", "connection lost", "lost connection",
  "connection dropped", "could not connect", "couldn't connect", "cannot connect", "unable to connect",
  "failed to connect", "no route to host", "network is unreachable", "network unreachable", "host unreachable",
  "host is unreachable", "server not responding", "not responding", "did not respond", "unreachable",
  "too long in the queue", "been in the queue too long", "message expired", "delivery time expired", "expired",
  "giving up", "given up", "retry timeout", "too many connections", "too busy", "rate limit", "throttl", "resources",
  "service unavailable", "service not available", "dns error", "name server timeout", "name server: ",
  "lookup failure", "could not be resolved", "for 5 days", "delayed", "deferred", "will be retried",
  "still undelivered", "full queue", "greylisted", "loop count", "not available", "overload", "unavailable",
  "vorübergehend", "später", "zeitüberschreitung", "temporaire", "délai", "plus tard", "temporal", "más tarde",
  "tiempo de espera", "temporári", "mais tarde", "temporane", "tijdelijk", "tymczasow", "временн", "позже", "しばらく",
  "一時", "稍后", "稍後", "超时", "暂时"
]
